//! What waits in a producer's queue is known, and leaves it whether it was delivered or given up.

use super::*;

#[test]
fn delivered_records_leave_the_queue() {
    let cluster = Cluster::start(1, &[]);
    let mut producer = cluster.producer(ProcessingGuarantee::AtLeastOnce);
    let queued = producer.queued();
    producer.begin().unwrap();
    for record in [Outgoing::Bundle(&bundle("a")), Outgoing::Changelog(Partition(0), &entry("key", None))] {
        producer.send(record).unwrap();
    }
    producer.commit().unwrap();
    assert_eq!(queued.get(), 0);
}

#[test]
fn records_that_no_broker_takes_wait_in_the_queue_until_they_are_given_up() {
    // Nothing listens on the discard port.
    let settings = Settings {
        bootstrap_servers: "127.0.0.1:9".into(),
        group_id: "duplex".into(),
        instance: "a".into(),
        oauth_token_file: String::new(),
        properties: BTreeMap::new(),
    };
    let guarantee = ProcessingGuarantee::AtLeastOnce;
    let mut producer = Producer::new(
        &settings,
        &Topics::default(),
        0,
        guarantee,
        DeadLetterPayload::Keep,
        RecordLimits::unasked(&settings),
    )
    .unwrap();
    let queued = producer.queued();
    assert_eq!(queued.get(), 0);
    producer.begin().unwrap();
    producer.send(Outgoing::Changelog(Partition(0), &entry("key", Some("value")))).unwrap();
    assert_eq!(queued.get(), 8);
    producer.send(Outgoing::Changelog(Partition(0), &entry("key", None))).unwrap();
    assert_eq!(queued.get(), 11);
    producer.abort().unwrap();
    assert_eq!(queued.get(), 0);
}
