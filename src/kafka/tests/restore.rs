//! The changelog reader against the embedded broker: what it waits for, what it refuses, and how much it says is left.

use super::*;

#[test]
fn an_empty_changelog_partition_is_restored_at_once_and_a_missing_topic_is_waited_for() {
    let cluster = Cluster::start(2, &[("allow.auto.create.topics", "false")]);
    let mut changelog = Changelog::new(&cluster.settings, &cluster.topics);
    assert_eq!(restore(&mut changelog, [1]), [[]]);
    assert!(matches!(changelog.read(Partition(9), TICK, &mut |_, _| {}), Err(BrokerError::Fatal(_))));
    let nowhere = Topics { changelog: "nowhere".into(), ..cluster.topics.clone() };
    let opened = Changelog::new(&cluster.settings, &nowhere).open(Partition(0));
    assert!(matches!(opened, Err(BrokerError::Retriable(_))), "{opened:?}");
}

#[test]
fn a_changelog_with_fewer_partitions_than_the_events_topic_is_not_waited_for() {
    let cluster = Cluster::start(2, &[]);
    cluster.broker.create_topic("grown", 3).unwrap();
    let grown = Topics { events: "grown".into(), ..cluster.topics.clone() };
    let mut changelog = Changelog::new(&cluster.settings, &grown);
    open(&mut changelog, 1);
    let expected = "topic duplex.changelog has 2 partitions and grown has 3: they must be equal; add partitions to \
                    duplex.changelog until it has 3, which loses nothing";
    assert_eq!(changelog.open(Partition(2)), Err(BrokerError::Misconfigured(expected.into())));
    // As long as both have as many, the broker may not know yet.
    let opened = Changelog::new(&cluster.settings, &cluster.topics).open(Partition(2));
    assert!(matches!(opened, Err(BrokerError::Retriable(_))), "{opened:?}");
}

#[test]
fn a_restore_tells_how_much_is_left_until_nothing_is() {
    let cluster = Cluster::start(2, &[]);
    let mut producer = cluster.producer(ProcessingGuarantee::AtLeastOnce);
    producer.begin().unwrap();
    for n in 0..2_000 {
        for partition in [0, 1] {
            producer.send(Outgoing::Changelog(Partition(partition), &entry(&n.to_string(), Some("v")))).unwrap();
        }
    }
    producer.commit().unwrap();
    let mut changelog = Changelog::new(&cluster.settings, &cluster.topics);
    for partition in [0, 1] {
        open(&mut changelog, partition);
    }
    let mut told = [Vec::new(), Vec::new()];
    let mut read = [0, 0];
    let mut open = vec![0, 1];
    let start = Instant::now();
    while !open.is_empty() {
        assert!(start.elapsed() < PATIENCE);
        // So short that a read ends in between, and the one's records wait for its turn.
        open.retain(|of| {
            let progress =
                changelog.read(Partition(*of as i32), Duration::from_micros(200), &mut |_, _| read[*of] += 1).unwrap();
            if let RestoreProgress::Restoring { left } = progress {
                assert_eq!(left, Some(2_000 - read[*of]), "of partition {of}");
                told[*of].push(left);
            }
            progress != RestoreProgress::Done
        });
    }
    assert_eq!(read, [2_000, 2_000]);
    assert!(told.iter().all(|told| told.first() == Some(&Some(2_000)) && told.is_sorted_by(|a, b| a >= b)), "{told:?}");
}
