//! Kills with every other fault between them, each in its turn.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::brokers::{Brokers, three};
use super::of_processes::kill_any;
use super::scene::{Fault, PARTITIONS, Scene};
use super::size::Size;
use crate::service::Deployment;
use crate::topics::config;
use crate::wait::PATIENCE;

/// How long a process stands still, no broker is there, or a transaction stays open: longer than a member may be silent.
const PAUSE: Duration = Duration::from_secs(5);

/// What happens between two kills.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    ProcessStopped,
    BrokerKilled,
    CoordinatorStopped,
    LeadersMoved,
    /// Another producer's, on the events topic: nothing behind it can be read while it is open, and nobody may read what is
    /// in it once it is aborted.
    TransactionOpen,
    TransactionAborted,
}

impl Mishap {
    const ALL: [Self; 6] = [
        Self::ProcessStopped,
        Self::BrokerKilled,
        Self::CoordinatorStopped,
        Self::LeadersMoved,
        Self::TransactionOpen,
        Self::TransactionAborted,
    ];

    fn happen(self, scene: &mut Scene<'_>, brokers: &Brokers) {
        match self {
            Self::ProcessStopped => {
                let instance = scene.any_instance();
                scene.fleet.stop(&instance);
                scene.let_pass(2 * PAUSE);
                scene.fleet.go_on(&instance);
            }
            Self::BrokerKilled => {
                let (_, broker) = brokers.leads_most(&scene.deployment.name);
                brokers.kill(broker);
                scene.see(20);
                brokers.restart(broker);
            }
            Self::CoordinatorStopped => {
                let broker = brokers.coordinator_of_group(&scene.deployment.name);
                brokers.stop(broker);
                scene.see(20);
                brokers.restart(broker);
            }
            Self::LeadersMoved => {
                brokers.move_leaders(&[&scene.deployment.name, "__"], scene.deployment.files.path());
            }
            Self::TransactionOpen => {
                let producer = open_a_transaction(scene.deployment);
                scene.let_pass(2 * PAUSE);
                producer.abort_transaction(PATIENCE).expect("the transaction is aborted");
            }
            Self::TransactionAborted => {
                let producer = open_a_transaction(scene.deployment);
                producer.abort_transaction(PATIENCE).expect("the transaction is aborted");
            }
        }
    }
}

#[test]
fn kills_with_every_other_fault_between_them() {
    let brokers = three();
    let mut fault = Fault::new("kills and all else, mixed", brokers.bootstrap());
    fault.replicas = 3;
    let row = fault.run(|scene| {
        let kills = Size::chosen().mixed_kills;
        for nth in 0..kills {
            scene.see(10);
            scene.let_pass(Duration::from_millis(1000));
            Mishap::ALL[nth % Mishap::ALL.len()].happen(scene, &brokers);
            scene.let_pass(Duration::from_millis(1000));
            kill_any(scene);
        }
        scene.see(10);
        scene.notes.push(format!("{kills} kills, {} other kinds", Mishap::ALL.len().min(kills)));
        2 * kills
    });
    row.assert_exactly_once();
}

/// Opens a transaction on each partition of the events topic, with an event in it that opens a session of nobody's.
fn open_a_transaction(deployment: &Deployment) -> BaseProducer {
    let producer: BaseProducer = config(&deployment.bootstrap)
        .set("transactional.id", format!("{}-another", deployment.name))
        .create()
        .expect("a producer");
    producer.init_transactions(PATIENCE).expect("the broker answers");
    producer.begin_transaction().expect("a transaction");
    let topic = deployment.topic("events");
    for partition in 0..PARTITIONS {
        let record = BaseRecord::to(&topic).partition(partition).key("nobody").payload(r#"{"type":"session.created"}"#);
        producer.send(record).map_err(|(error, _)| error).expect("the record is queued");
    }
    producer.flush(PATIENCE).expect("the records are delivered");
    producer
}
