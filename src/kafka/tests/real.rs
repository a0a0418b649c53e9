//! The adapters against real Apache Kafka: what the embedded broker can't show. Run with `KAFKA_BOOTSTRAP` set and
//! `--ignored`; each test makes topics of its own.

use super::*;
use crate::clock::SystemClock;
use crate::time::Clock as _;

pub fn cluster(name: &str, partitions: i32, properties: &[(&str, &str)]) -> (Settings, Topics) {
    let unique = SystemClock::new().now().0;
    let topic = |what: &str| format!("{name}-{unique}-{what}");
    let topics = Topics {
        events: topic("events"),
        bundles: topic("bundles"),
        dead_letters: topic("dead"),
        changelog: topic("changelog"),
        create: true,
        partitions,
        replication_factor: 1,
    };
    let settings = Settings {
        bootstrap_servers: std::env::var("KAFKA_BOOTSTRAP").unwrap(),
        group_id: topic("group"),
        instance: "a".into(),
        oauth_token_file: String::new(),
        properties: properties.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    };
    (settings, topics)
}

pub fn producer(settings: &Settings, topics: &Topics, slot: usize) -> Producer {
    let mut producer = Producer::new(
        settings,
        topics,
        slot,
        ProcessingGuarantee::ExactlyOnce,
        DeadLetterPayload::Keep,
        RecordLimits::unasked(settings),
    )
    .unwrap();
    register(&mut producer);
    producer
}

fn bundles(settings: &Settings, topics: &Topics) -> Vec<String> {
    let mut reader = BundleReader::new(settings, topics).unwrap();
    let mut read = Vec::new();
    let start = Instant::now();
    while !reader.caught_up() {
        assert!(start.elapsed() < PATIENCE);
        reader.poll(TICK, &mut |record| read.push(String::from_utf8(record.value.to_vec()).unwrap())).unwrap();
    }
    read.sort();
    read
}

fn json(session: &str) -> String {
    format!("{{\"{session}\":1}}")
}

/// The end of partition 0, pending transactions included.
fn high_watermark(settings: &Settings, topic: &str) -> i64 {
    let prober: rdkafka::consumer::BaseConsumer = settings.prober(config::Isolation::ReadUncommitted).create().unwrap();
    rdkafka::consumer::Consumer::fetch_watermarks(&prober, topic, 0, PATIENCE).unwrap().1
}

fn member(settings: &Settings, topics: &Topics, slot: usize) -> Member {
    let consumer = Consumer::new(settings, topics, slot).unwrap();
    Member { consumer, held: BTreeSet::new(), seen: Vec::new(), ends: BTreeSet::new() }
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn topics_are_created_checked_and_refused() {
    let (settings, topics) = cluster("create", 3, &[]);
    let missing = Topics { create: false, ..topics.clone() };
    let error = check_topics(&settings, &missing, Indivisible::default(), false, PATIENCE).unwrap_err();
    assert!(matches!(&error, CheckError::Wrong(all) if all.len() == 4), "{error}");
    assert_eq!(
        check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE),
        Ok(RecordLimits::unasked(&settings))
    );
    assert_eq!(
        check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE),
        Ok(RecordLimits::unasked(&settings))
    );
    let info = connect(&settings, PATIENCE).unwrap();
    assert_eq!((info.brokers, info.topics[&topics.changelog]), (1, 3));
    assert!(info.cluster_id.is_some());
    let deleting = Topics { changelog: topics.bundles.clone(), bundles: topics.changelog.clone(), ..topics };
    let error = check_topics(&settings, &deleting, Indivisible::default(), false, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("has cleanup.policy=delete"), "{error}");
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn aborted_records_stay_hidden_and_offsets_commit_with_the_transaction() {
    let (settings, topics) = cluster("abort", 1, &[]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let mut member = member(&settings, &topics, 0);
    member.until("assigned", |m| m.held.len() == 1);
    let mut producer = producer(&settings, &topics, 0);
    let mut took = Vec::new();
    let mut aborts = Vec::new();
    for n in 0..20 {
        let metadata = member.consumer.group_metadata().unwrap();
        producer.begin().unwrap();
        for k in 0..200 {
            producer.send(Outgoing::Bundle(&bundle(&format!("aborted-{k}")))).unwrap();
        }
        producer.send(Outgoing::Changelog(Partition(0), &entry("aborted", Some("1")))).unwrap();
        producer.send_offsets(&[(Partition(0), Offset(99))], &metadata).unwrap();
        let start = Instant::now();
        producer.abort().unwrap();
        aborts.push(start.elapsed());

        producer.begin().unwrap();
        producer.send(Outgoing::Bundle(&bundle(&format!("kept-{n:02}")))).unwrap();
        producer.send(Outgoing::Changelog(Partition(0), &entry("kept", Some(&n.to_string())))).unwrap();
        producer.send_offsets(&[(Partition(0), Offset(n))], &metadata).unwrap();
        let start = Instant::now();
        producer.commit().unwrap();
        took.push(start.elapsed());
    }
    took.sort();
    aborts.sort();
    eprintln!("commit p50 {:?} max {:?}; abort p50 {:?} max {:?}", took[10], took[19], aborts[10], aborts[19]);
    let expected: Vec<String> = (0..20).map(|n| json(&format!("kept-{n:02}"))).collect();
    assert_eq!(bundles(&settings, &topics), expected);
    let starts = member.consumer.committed(&[Partition(0)], PATIENCE).unwrap();
    assert_eq!(starts, [Start { partition: Partition(0), committed: with_state(19), from: Offset(19) }]);
    let mut changelog = Changelog::new(&settings, &topics);
    let [entries] = restore(&mut changelog, [0]);
    assert_eq!(entries.len(), 20);
    assert!(entries.iter().all(|(key, _)| key == "kept"));
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn a_second_producer_fences_the_first() {
    let (settings, topics) = cluster("fence", 1, &[]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let mut first = producer(&settings, &topics, 0);
    first.begin().unwrap();
    first.send(Outgoing::Bundle(&bundle("first"))).unwrap();
    let mut second = producer(&settings, &topics, 0);
    second.begin().unwrap();
    second.send(Outgoing::Bundle(&bundle("second"))).unwrap();
    second.commit().unwrap();
    let error = first.commit().unwrap_err();
    assert!(matches!(error, BrokerError::Fenced(_)), "{error:?}");
    eprintln!("fenced: {error}; abort {:?}; begin {:?}", first.abort(), first.begin());
    assert_eq!(bundles(&settings, &topics), [json("second")]);
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn a_restore_and_a_committed_offset_wait_for_a_pending_transaction() {
    let (settings, topics) = cluster("pending", 1, &[]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let mut member = member(&settings, &topics, 0);
    member.until("assigned", |m| m.held.len() == 1);
    for commits in [true, false] {
        let metadata = member.consumer.group_metadata().unwrap();
        let mut other = producer(&settings, &topics, 1);
        let before = high_watermark(&settings, &topics.changelog);
        other.begin().unwrap();
        other.send(Outgoing::Changelog(Partition(0), &entry("pending", Some("1")))).unwrap();
        other.send_offsets(&[(Partition(0), Offset(if commits { 5 } else { 6 }))], &metadata).unwrap();
        // Until it is on the broker, there is nothing to wait for.
        let sent = Instant::now();
        while high_watermark(&settings, &topics.changelog) == before {
            assert!(sent.elapsed() < PATIENCE);
        }
        let mut changelog = Changelog::new(&settings, &topics);
        open(&mut changelog, 0);
        for _ in 0..5 {
            let progress = changelog.read(Partition(0), TICK, &mut |_, _| panic!("not decided")).unwrap();
            assert!(matches!(progress, RestoreProgress::Restoring { left: Some(1..) }), "{progress:?}");
        }
        let early = member.consumer.committed(&[Partition(0)], Duration::from_millis(500));
        assert!(matches!(early, Err(BrokerError::Retriable(_))), "{early:?}");
        if commits { other.commit() } else { other.abort() }.unwrap();
        let mut read = 0;
        let start = Instant::now();
        while changelog.read(Partition(0), TICK, &mut |_, _| read += 1).unwrap() != RestoreProgress::Done {
            assert!(start.elapsed() < PATIENCE);
        }
        assert_eq!(read, 1, "one committed entry, the aborted one hidden");
        let starts = member.consumer.committed(&[Partition(0)], PATIENCE).unwrap();
        assert_eq!(starts[0].committed.offset, Some(Offset(5)));
    }
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn partitions_added_to_the_events_topic_alone_stop_the_restore_with_the_remedy() {
    use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
    let (settings, topics) = cluster("grow", 2, &[]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let mut changelog = Changelog::new(&settings, &topics);
    open(&mut changelog, 1);
    let admin: AdminClient<_> = settings.admin().create().unwrap();
    let grow = |topic: &str| {
        let deadline = client::Deadline::after(PATIENCE);
        let new = [NewPartitions::new(topic, 3)];
        topics::block_on(admin.create_partitions(&new, &AdminOptions::new()), deadline).unwrap().unwrap()
    };
    assert_eq!(grow(&topics.events), [Ok(topics.events.clone())]);
    let start = Instant::now();
    let error = loop {
        assert!(start.elapsed() < PATIENCE);
        match changelog.open(Partition(2)) {
            // Not every broker knows of a new partition at once.
            Err(BrokerError::Retriable(_)) => {}
            other => break other.unwrap_err(),
        }
    };
    let Topics { events, changelog: own, .. } = &topics;
    let expected = format!(
        "topic {own} has 2 partitions and {events} has 3: they must be equal; add partitions to {own} until it has 3, which \
         loses nothing"
    );
    assert_eq!(error, BrokerError::Misconfigured(expected));
    // The remedy is one.
    assert_eq!(grow(own), [Ok(own.clone())]);
    open(&mut changelog, 2);
    assert_eq!(restore(&mut changelog, [2]), [[]]);
    assert_eq!(
        check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE),
        Ok(RecordLimits::unasked(&settings))
    );
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn a_member_that_left_its_group_can_not_commit() {
    let (settings, topics) = cluster("zombie", 1, &[("session.timeout.ms", "6000")]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let mut first = member(&settings, &topics, 0);
    first.until("assigned", |m| m.held.len() == 1);
    let metadata = first.consumer.group_metadata().unwrap();
    first.consumer.close(PATIENCE);
    let mut second = member(&settings, &topics, 1);
    second.until("assigned", |m| m.held.len() == 1);
    let mut producer = producer(&settings, &topics, 0);
    producer.begin().unwrap();
    producer.send(Outgoing::Bundle(&bundle("zombie"))).unwrap();
    let error = producer.send_offsets(&[(Partition(0), Offset(9))], &metadata).unwrap_err();
    assert!(matches!(error, BrokerError::Abortable(_)), "{error:?}");
    eprintln!("zombie: {error}");
    producer.abort().unwrap();
    producer.begin().unwrap();
    producer.send(Outgoing::Bundle(&bundle("alive"))).unwrap();
    producer.send_offsets(&[(Partition(0), Offset(1))], &second.consumer.group_metadata().unwrap()).unwrap();
    producer.commit().unwrap();
    assert_eq!(bundles(&settings, &topics), [json("alive")]);
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn partitions_move_and_paused_ones_start_at_their_offset() {
    for strategy in ["range", "cooperative-sticky"] {
        let (settings, topics) = cluster("move", 4, &[("partition.assignment.strategy", strategy)]);
        check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
        let mut writer = Writer::new(&settings).unwrap();
        for n in 0..400 {
            let headers = [("run", Some(&b"r1"[..])), ("empty", None)];
            let key = format!("s-{n}");
            writer.send(&topics.events, Some(key.as_bytes()), b"{}", Some(Timestamp(1000)), &headers).unwrap();
        }
        writer.flush(PATIENCE).unwrap();
        let mut first = member(&settings, &topics, 0);
        first.until("all", |m| m.seen.len() == 400 && m.ends.len() == 4);
        let mut producer = producer(&settings, &topics, 0);
        producer.begin().unwrap();
        producer.send(Outgoing::Bundle(&bundle("s"))).unwrap();
        let offsets: Vec<_> = first.held.iter().map(|p| (*p, Offset(7))).collect();
        producer.send_offsets(&offsets, &first.consumer.group_metadata().unwrap()).unwrap();
        producer.commit().unwrap();
        let start = Instant::now();
        let mut second = member(&settings, &topics, 1);
        first.until("half each", |m| {
            second.step();
            m.held.len() == 2 && second.held.len() == 2
        });
        eprintln!("{strategy}: half each after {:?}", start.elapsed());
        second.until("the moved records", |m| {
            m.held.iter().all(|p| m.seen.iter().any(|(of, offset, _)| of == p && offset.0 >= 80))
        });
        for partition in &second.held {
            let first_read = second.seen.iter().find(|(of, ..)| of == partition).unwrap();
            assert_eq!(first_read.1, Offset(7));
        }
        let start = Instant::now();
        second.consumer.close(PATIENCE);
        first.consumer.close(PATIENCE);
        eprintln!("{strategy}: both closed after {:?}", start.elapsed());
    }
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn records_deleted_before_they_were_read_are_not_skipped_silently() {
    use rdkafka::admin::{AdminClient, AdminOptions};
    let (settings, topics) = cluster("lost", 1, &[]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let mut writer = Writer::new(&settings).unwrap();
    for _ in 0..50 {
        writer.send(&topics.events, Some(b"s"), b"{}", Some(Timestamp(1000)), &[]).unwrap();
    }
    writer.flush(PATIENCE).unwrap();
    let mut consumer = Consumer::new(&settings, &topics, 0).unwrap();
    let start = Instant::now();
    let mut assigned = false;
    while !assigned {
        assert!(start.elapsed() < PATIENCE);
        consumer.poll(TICK, &mut |polled| assigned = matches!(polled, Polled::Assigned(_))).unwrap();
    }
    let admin: AdminClient<_> = settings.admin().create().unwrap();
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_offset(&topics.events, 0, rdkafka::Offset::Offset(30)).unwrap();
    let deadline = client::Deadline::after(PATIENCE);
    topics::block_on(admin.delete_records(&list, &AdminOptions::new()), deadline).unwrap().unwrap();
    consumer.assign(&[Start { partition: Partition(0), committed: with_state(10), from: Offset(10) }]).unwrap();
    consumer.resume(Partition(0)).unwrap();
    let error = loop {
        assert!(start.elapsed() < PATIENCE);
        match consumer.poll(TICK, &mut |polled| assert!(!matches!(polled, Polled::Record(_)))) {
            Ok(()) | Err(BrokerError::Retriable(_)) => {}
            Err(error) => break error,
        }
    };
    eprintln!("{error}");
    assert!(matches!(error, BrokerError::RecordsLost(_)), "{error:?}");
}
