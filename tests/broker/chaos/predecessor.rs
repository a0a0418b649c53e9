//! A transaction that somebody of the same name has left open.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::scene::PARTITIONS;
use crate::service::Deployment;
use crate::topics::config;
use crate::wait::PATIENCE;

/// Opens a transaction by the name of an instance's first worker, writes to each partition of the bundles, and leaves it
/// so. It stays open for a minute unless a successor ends it; the producer is returned, for it is not to be closed yet.
pub fn leave_a_transaction_open(deployment: &Deployment, instance: &str) -> BaseProducer {
    let producer: BaseProducer = config(&deployment.bootstrap)
        .set("transactional.id", format!("{}/{instance}/0", deployment.name))
        .set("transaction.timeout.ms", "60000")
        .create()
        .expect("a producer");
    producer.init_transactions(PATIENCE).expect("the predecessor has no predecessor");
    producer.begin_transaction().expect("a transaction");
    let topic = deployment.topic("bundles");
    for partition in 0..PARTITIONS {
        let record = BaseRecord::to(&topic).partition(partition).key("nobody's session").payload("{}");
        producer.send(record).map_err(|(error, _)| error).expect("the record is queued");
    }
    producer.flush(PATIENCE).expect("the records are delivered");
    producer.poll(Duration::ZERO);
    producer
}
