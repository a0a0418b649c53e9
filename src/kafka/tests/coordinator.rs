//! A group coordinator of its own, which can die alone.

use std::sync::Arc;

use rdkafka::config::FromClientConfig as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::mocking::{MockCluster, MockCoordinator};

use super::*;

/// Registers a producer; the coordinator may have another transaction to end first.
pub fn register(producer: &mut Producer) {
    let start = Instant::now();
    loop {
        match producer.init_transactions() {
            Err(BrokerError::Retriable(text)) => assert!(start.elapsed() < PATIENCE, "{text}"),
            result => return result.unwrap(),
        }
    }
}

#[test]
fn a_group_coordinator_that_died_holds_nobody_for_ever_and_a_new_client_goes_on() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let cluster = MockCluster::new(2).unwrap();
    let topics = Topics::default();
    cluster.create_topic(&topics.bundles, 1, 2).unwrap();
    cluster.coordinator(MockCoordinator::Transaction("duplex/a/0".into()), 1).unwrap();
    cluster.coordinator(MockCoordinator::Group("duplex".into()), 2).unwrap();
    let settings = Settings {
        bootstrap_servers: cluster.bootstrap_servers(),
        group_id: "duplex".into(),
        instance: "a".into(),
        oauth_token_file: String::new(),
        properties: BTreeMap::from([("transaction.timeout.ms".into(), TIMEOUT.as_millis().to_string())]),
    };
    let guarantee = ProcessingGuarantee::ExactlyOnce;
    let mut producer =
        Producer::new(&settings, &topics, 0, guarantee, DeadLetterPayload::Keep, RecordLimits::unasked(&settings))
            .unwrap();
    register(&mut producer);
    let member = BaseConsumer::from_config(&settings.consumer(0)).unwrap();
    let group = GroupMetadata(Arc::new(member.group_metadata().unwrap()));

    producer.begin().unwrap();
    cluster.broker_down(2).unwrap();
    let began = Instant::now();
    let error = producer.send_offsets(&[(Partition(0), Offset(1))], &group).unwrap_err();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(matches!(&error, BrokerError::Undecided(text) if text.contains("group duplex")), "{error:?}");
    cluster.broker_up(2).unwrap();
    while let Err(error) = producer.init_transactions() {
        assert!(matches!(error, BrokerError::Retriable(_)), "{error:?}");
        assert!(began.elapsed() < PATIENCE, "{error:?}");
    }
    producer.begin().unwrap();
    producer.send(Outgoing::Bundle(&bundle("s-1"))).unwrap();
    producer.commit().unwrap();
    // What hung holds nothing else up either.
    drop(producer);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}
