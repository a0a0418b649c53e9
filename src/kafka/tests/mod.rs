//! The adapters against the embedded broker. Every wait is for an event, with a deadline that fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::collector::EndReason;
use crate::ids::{Offset, Partition};
use crate::task::{Bundle, ChangelogEntry, CommittedOffset, DeadLetter};
use crate::time::Timestamp;
use crate::wire::DeadLetterReason;
use crate::worker::{
    BrokerError, ChangelogReader as _, Consumer as _, Outgoing, Polled, ProcessingGuarantee, Producer as _,
    RestoreProgress, Start,
};

const PATIENCE: Duration = Duration::from_secs(15);
const TICK: Duration = Duration::from_millis(20);

mod bundles;
mod coordinator;
mod queues;
mod real;
mod restore;

use coordinator::register;

struct Cluster {
    broker: EmbeddedBroker,
    settings: Settings,
    topics: Topics,
}

/// What the group answers after one of this program's own commits.
fn with_state(offset: i64) -> CommittedOffset {
    CommittedOffset { offset: Some(Offset(offset)), has_state: true }
}

impl Cluster {
    fn start(partitions: i32, properties: &[(&str, &str)]) -> Self {
        let broker = EmbeddedBroker::start().unwrap();
        let topics = Topics { partitions, replication_factor: 1, ..Topics::default() };
        broker.create_topics(&topics).unwrap();
        // A rebalance of the mock takes the session timeout less a second, the first one three seconds.
        let mut all = BTreeMap::from([
            ("session.timeout.ms".to_owned(), "3500".to_owned()),
            ("heartbeat.interval.ms".to_owned(), "100".to_owned()),
        ]);
        all.extend(properties.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        let settings = Settings {
            bootstrap_servers: broker.bootstrap_servers(),
            group_id: "duplex".into(),
            instance: "a".into(),
            oauth_token_file: String::new(),
            properties: all,
        };
        assert_eq!(settings.check(), Ok(()));
        Self { broker, settings, topics }
    }

    fn consumer(&self, slot: usize) -> Member {
        let consumer = Consumer::new(&self.settings, &self.topics, slot).unwrap();
        Member { consumer, held: BTreeSet::new(), seen: Vec::new(), ends: BTreeSet::new() }
    }

    fn producer(&self, guarantee: ProcessingGuarantee) -> Producer {
        let mut producer = Producer::new(
            &self.settings,
            &self.topics,
            0,
            guarantee,
            DeadLetterPayload::Keep,
            RecordLimits::unasked(&self.settings),
        )
        .unwrap();
        register(&mut producer);
        producer
    }

    fn write_events(&self, keys: std::ops::Range<usize>) {
        let mut writer = Writer::new(&self.settings).unwrap();
        for n in keys {
            let key = format!("s-{n}");
            let headers = [("run", Some(&b"r1"[..])), ("empty", None)];
            writer.send(&self.topics.events, Some(key.as_bytes()), b"{}", Some(Timestamp(1000)), &headers).unwrap();
        }
        writer.flush(PATIENCE).unwrap();
    }
}

/// A worker in small: answers every rebalance at once and remembers what it saw.
struct Member {
    consumer: Consumer,
    held: BTreeSet<Partition>,
    seen: Vec<(Partition, Offset, String)>,
    ends: BTreeSet<Partition>,
}

impl Member {
    fn step(&mut self) {
        let mut assigned = None;
        let mut gone = None;
        let (seen, ends) = (&mut self.seen, &mut self.ends);
        self.consumer
            .poll(TICK, &mut |polled| match polled {
                Polled::Record(record) => {
                    let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                    assert_eq!(record.timestamp, Some(Timestamp(1000)));
                    assert_eq!(record.header_str("run"), Some("r1"));
                    assert_eq!((record.headers[1].name, record.headers[1].value), ("empty", None));
                    seen.push((record.partition, record.offset, key));
                }
                Polled::EndOfPartition(partition) => drop(ends.insert(partition)),
                Polled::Assigned(partitions) => assigned = Some(partitions),
                Polled::Revoked(partitions) | Polled::Lost(partitions) => gone = Some(partitions),
            })
            .unwrap_or_else(|error| assert!(matches!(error, BrokerError::Retriable(_)), "{error}"));
        if let Some(partitions) = assigned {
            let starts = self.consumer.committed(&partitions, PATIENCE).unwrap();
            self.consumer.assign(&starts).unwrap();
            for partition in partitions {
                assert!(self.held.insert(partition), "{partition} is given once");
                self.consumer.resume(partition).unwrap();
            }
        }
        if let Some(partitions) = gone {
            for partition in &partitions {
                assert!(self.held.remove(partition), "{partition} was held");
            }
            self.consumer.unassign(&partitions).unwrap();
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "not in time: {what}; held {:?}, seen {}", self.held, self.seen.len());
            self.step();
        }
    }
}

fn bundle(session: &str) -> Bundle {
    Bundle {
        session_id: session.into(),
        end_reason: EndReason::Closed,
        json: format!("{{\"{session}\":1}}").into(),
        cuts: Default::default(),
    }
}

fn entry(key: &str, value: Option<&str>) -> ChangelogEntry {
    ChangelogEntry { key: key.into(), value: value.map(Into::into) }
}

fn dead_letter() -> DeadLetter {
    DeadLetter {
        reason: DeadLetterReason::InvalidJson,
        detail: "expected a value at byte 0".into(),
        partition: Partition(1),
        offset: Offset(7),
        timestamp: Some(Timestamp(1234)),
        key: Some(b"s-1".to_vec()),
        payload: b"nonsense".to_vec(),
        headers: vec![("own".into(), Some(b"1".to_vec())), ("none".into(), None)],
    }
}

type Entries = Vec<(String, Option<String>)>;

/// Restores partitions side by side, as a worker does.
/// Opens a partition for its restore, once the broker knows who leads it: of a new topic it may not at once.
fn open(changelog: &mut Changelog, partition: i32) {
    let start = Instant::now();
    while let Err(error) = changelog.open(Partition(partition)) {
        assert!(matches!(error, BrokerError::Retriable(_)) && start.elapsed() < PATIENCE, "{error}");
    }
}

fn restore<const N: usize>(changelog: &mut Changelog, partitions: [i32; N]) -> [Entries; N] {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut entries = [const { Entries::new() }; N];
    let mut open: Vec<usize> = (0..N).collect();
    let start = Instant::now();
    for partition in partitions {
        self::open(changelog, partition);
    }
    while !open.is_empty() {
        assert!(start.elapsed() < PATIENCE);
        open.retain(|index| {
            let read = &mut entries[*index];
            let partition = Partition(partitions[*index]);
            let progress = changelog.read(partition, TICK, &mut |key, value| read.push((text(key), value.map(text))));
            match progress {
                Ok(RestoreProgress::Done) => changelog.close(partition),
                // As the worker does: a broker that is slow to answer is asked again.
                Ok(_) | Err(BrokerError::Retriable(_)) => return true,
                Err(error) => panic!("{error}"),
            }
            false
        });
    }
    entries
}

fn one_then_two_members(strategy: &str) {
    let cluster = Cluster::start(4, &[("partition.assignment.strategy", strategy)]);
    cluster.write_events(0..40);
    let mut first = cluster.consumer(0);
    first.until("all records", |m| m.seen.len() == 40 && m.ends.len() == 4);
    assert_eq!(first.held.len(), 4);
    first.until("ends from statistics", |m| m.held.iter().all(|p| m.consumer.ends(*p).is_some()));
    first.consumer.group_metadata().unwrap();

    let mut second = cluster.consumer(1);
    first.until("half each", |m| {
        second.step();
        m.held.len() == 2 && second.held.len() == 2
    });
    assert!(first.held.is_disjoint(&second.held));
    for partition in &second.held {
        assert_eq!(first.consumer.ends(*partition), None, "series of a revoked partition leave");
    }
    // Nothing was committed, so the second reads its own from the beginning, and the first does not read again.
    let moved: Vec<_> = first.seen.iter().filter(|(p, ..)| second.held.contains(p)).cloned().collect();
    let seen_before = first.seen.len();
    second.until("the moved records", |m| m.seen.len() == moved.len());
    if strategy == "cooperative-sticky" {
        first.step();
        assert_eq!(first.seen.len(), seen_before);
    }

    second.consumer.close(PATIENCE);
    first.until("all back", |m| m.held.len() == 4);
    let start = Instant::now();
    first.consumer.close(PATIENCE);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Runs the variants of a test side by side: most of their time is the mock's timers.
fn side_by_side<T: Copy + Send + 'static>(variants: [T; 2], test: fn(T)) {
    thread::scope(|scope| {
        for variant in variants {
            scope.spawn(move || test(variant));
        }
    });
}

const STRATEGIES: [&str; 2] = ["range", "cooperative-sticky"];

#[test]
fn partitions_move_between_two_members_eagerly_and_cooperatively() {
    side_by_side(STRATEGIES, one_then_two_members);
}

#[test]
fn a_partition_stays_paused_until_resumed_and_starts_at_the_given_offset() {
    side_by_side(STRATEGIES, |strategy| {
        let cluster = Cluster::start(1, &[("partition.assignment.strategy", strategy)]);
        cluster.write_events(0..20);
        let mut consumer = Consumer::new(&cluster.settings, &cluster.topics, 0).unwrap();
        assert!(matches!(consumer.group_metadata(), Err(BrokerError::Abortable(_))));
        let mut offsets = Vec::new();
        let mut assigned = false;
        let start = Instant::now();
        while !assigned {
            assert!(start.elapsed() < PATIENCE);
            consumer.poll(TICK, &mut |polled| assigned = matches!(polled, Polled::Assigned(_))).unwrap();
        }
        let partition = Partition(0);
        let mut read = |consumer: &mut Consumer, from: Option<i64>, polls_paused: usize, until: i64| {
            offsets.clear();
            consumer
                .assign(&[Start {
                    partition,
                    committed: CommittedOffset { offset: from.map(Offset), has_state: false },
                    from: Offset(from.unwrap_or(0)),
                }])
                .unwrap();
            for _ in 0..polls_paused {
                consumer.poll(TICK, &mut |polled| panic!("paused, but {polled:?}")).unwrap();
            }
            consumer.resume(partition).unwrap();
            let start = Instant::now();
            while offsets.last() != Some(&until) {
                assert!(start.elapsed() < PATIENCE, "{strategy}: {offsets:?}");
                consumer
                    .poll(TICK, &mut |polled| {
                        if let Polled::Record(record) = polled {
                            offsets.push(record.offset.0);
                        }
                    })
                    .unwrap();
            }
            offsets.clone()
        };
        assert_eq!(read(&mut consumer, Some(13), 10, 19), (13..20).collect::<Vec<_>>());
        // Rewinds while running, with what was fetched ahead left out; at once and after a pause.
        assert_eq!(read(&mut consumer, None, 0, 10), (0..11).collect::<Vec<_>>());
        assert_eq!(read(&mut consumer, Some(4), 5, 19), (4..20).collect::<Vec<_>>());
        consumer.unassign(&[partition]).unwrap();
        consumer.poll(TICK, &mut |polled| panic!("given up, but {polled:?}")).unwrap();
        assert_eq!(read(&mut consumer, Some(2), 1, 19), (2..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_consumer_closes_in_time_while_a_rebalance_waits_and_the_broker_is_gone() {
    side_by_side([false, true], |answered| {
        let cluster = Cluster::start(2, &[]);
        let mut member = cluster.consumer(0);
        if answered {
            member.until("both", |m| m.held.len() == 2);
        } else {
            let mut asked = false;
            let start = Instant::now();
            while !asked {
                assert!(start.elapsed() < PATIENCE);
                member.consumer.poll(TICK, &mut |polled| asked = matches!(polled, Polled::Assigned(_))).unwrap();
            }
        }
        cluster.broker.down().unwrap();
        let start = Instant::now();
        member.consumer.close(Duration::from_secs(3));
        assert!(start.elapsed() < Duration::from_millis(3500), "{:?}", start.elapsed());
        assert!(matches!(member.consumer.poll(TICK, &mut |_| {}), Err(BrokerError::Fatal(_))));
    });
}

#[test]
fn a_consumer_closes_at_once_while_its_answer_is_owed() {
    side_by_side(STRATEGIES, |strategy| {
        let cluster = Cluster::start(2, &[("partition.assignment.strategy", strategy)]);
        let mut consumer = Consumer::new(&cluster.settings, &cluster.topics, 0).unwrap();
        let mut asked = false;
        let start = Instant::now();
        while !asked {
            assert!(start.elapsed() < PATIENCE);
            consumer.poll(TICK, &mut |polled| asked = matches!(polled, Polled::Assigned(_))).unwrap();
        }
        let start = Instant::now();
        consumer.close(PATIENCE);
        assert!(start.elapsed() < Duration::from_secs(2), "{strategy}: {:?}", start.elapsed());
    });
}

#[test]
fn a_transaction_writes_all_topics_and_takes_a_few_milliseconds() {
    let cluster = Cluster::start(2, &[]);
    let mut member = cluster.consumer(0);
    member.until("both", |m| m.held.len() == 2);
    let mut producer = cluster.producer(ProcessingGuarantee::ExactlyOnce);
    let mut took = Vec::new();
    for n in 0..21 {
        producer.begin().unwrap();
        for k in 0..20 {
            producer.send(Outgoing::Bundle(&bundle(&format!("s-{n}-{k}")))).unwrap();
            producer.send(Outgoing::Changelog(Partition(1), &entry(&format!("k-{k}"), Some("v")))).unwrap();
        }
        producer.send(Outgoing::Changelog(Partition(1), &entry("closed", None))).unwrap();
        let metadata = member.consumer.group_metadata().unwrap();
        producer.send_offsets(&[(Partition(0), Offset(n))], &metadata).unwrap();
        let start = Instant::now();
        producer.commit().unwrap();
        took.push(start.elapsed());
    }
    took.sort();
    eprintln!("commit p50 {:?}, longest {:?}", took[10], took[20]);
    assert!(took[10] < Duration::from_millis(60), "commit p50 {:?}", took[10]);

    producer.begin().unwrap();
    producer.send(Outgoing::DeadLetter(&dead_letter())).unwrap();
    producer.send(Outgoing::Changelog(Partition(0), &entry("kept", Some("1")))).unwrap();
    producer.commit().unwrap();

    let mut changelog = Changelog::new(&cluster.settings, &cluster.topics);
    for _ in 0..2 {
        let [small, large] = restore(&mut changelog, [0, 1]);
        assert_eq!(small, [("kept".to_owned(), Some("1".to_owned()))]);
        assert_eq!(large.len(), 21 * 21);
        assert_eq!(large.last(), Some(&("closed".to_owned(), None)));
    }

    let mut reader = BundleReader::new(&cluster.settings, &cluster.topics).unwrap();
    let mut read = 0;
    let start = Instant::now();
    while !reader.caught_up() {
        assert!(start.elapsed() < PATIENCE);
        reader.poll(TICK, &mut |_| read += 1).unwrap();
    }
    assert_eq!(read, 21 * 20);
}

#[test]
fn after_an_abort_the_next_transaction_commits() {
    let cluster = Cluster::start(1, &[]);
    let mut producer = cluster.producer(ProcessingGuarantee::ExactlyOnce);
    for n in 0..3 {
        producer.begin().unwrap();
        for k in 0..500 {
            producer.send(Outgoing::Bundle(&bundle(&format!("s-{n}-{k}")))).unwrap();
        }
        producer.abort().unwrap();
        producer.begin().unwrap();
        producer.send(Outgoing::Bundle(&bundle("kept"))).unwrap();
        producer.commit().unwrap();
    }
}

#[test]
fn at_least_once_writes_without_transactions_and_commits_offsets_by_the_consumer() {
    let cluster = Cluster::start(1, &[]);
    cluster.write_events(0..5);
    let mut producer = cluster.producer(ProcessingGuarantee::AtLeastOnce);
    let mut member = cluster.consumer(0);
    member.until("records", |m| m.seen.len() == 5);
    producer.begin().unwrap();
    producer.send(Outgoing::Bundle(&bundle("s-1"))).unwrap();
    producer.commit().unwrap();
    member.consumer.commit_offsets(&[(Partition(0), Offset(4))]).unwrap();
    let starts = member.consumer.committed(&[Partition(0)], PATIENCE).unwrap();
    assert_eq!(starts, [Start { partition: Partition(0), committed: with_state(4), from: Offset(4) }]);
}

#[test]
fn a_dead_letter_keeps_its_record_and_says_where_it_came_from() {
    let keep = records::fitted(&dead_letter(), "events", DeadLetterPayload::Keep, 1_000_000).headers;
    let shown = |headers: &rdkafka::message::OwnedHeaders| -> Vec<String> {
        use rdkafka::message::Headers as _;
        headers
            .iter()
            .map(|header| format!("{}={}", header.key, header.value.map_or("-".into(), String::from_utf8_lossy)))
            .collect()
    };
    let mut expected = vec![
        "own=1",
        "none=-",
        "__connect.errors.topic=events",
        "__connect.errors.partition=1",
        "__connect.errors.offset=7",
        "__connect.errors.exception.message=expected a value at byte 0",
        "duplex.dead_letter.reason=invalid_json",
        "duplex.dead_letter.timestamp_ms=1234",
    ];
    assert_eq!(shown(&keep), expected);
    expected.push("duplex.dead_letter.payload_bytes=8");
    let dropped = records::fitted(&dead_letter(), "events", DeadLetterPayload::Drop, 1_000_000).headers;
    assert_eq!(shown(&dropped), expected);
}

#[test]
fn topics_are_checked_before_the_start() {
    let cluster = Cluster::start(2, &[]);
    let check =
        |topics: &Topics, embedded| check_topics(&cluster.settings, topics, Indivisible::default(), embedded, PATIENCE);
    assert_eq!(check(&cluster.topics, true), Ok(RecordLimits::unasked(&cluster.settings)));
    cluster.broker.create_topic("three", 3).unwrap();
    let unequal = Topics { changelog: "three".into(), ..cluster.topics.clone() };
    let error = check(&unequal, true).unwrap_err().to_string();
    assert!(error.starts_with("topic three has 3 partitions and duplex.events has 2"), "{error}");
    assert!(error.contains("recreate three (which loses open sessions)"), "{error}");

    let missing = Topics { bundles: "nowhere".into(), ..cluster.topics.clone() };
    assert_eq!(check(&missing, true), Err(CheckError::Wrong(vec![TopicProblem::Missing { topic: "nowhere".into() }])));

    let looping = Topics { dead_letters: cluster.topics.events.clone(), ..cluster.topics.clone() };
    let error = check(&looping, true).unwrap_err().to_string();
    assert!(error.starts_with("topics.events and topics.dead_letters are both \"duplex.events\""), "{error}");

    let info = connect(&cluster.settings, PATIENCE).unwrap();
    assert_eq!((info.brokers, info.topics["duplex.events"]), (1, 2));
    let nobody = Settings { bootstrap_servers: "127.0.0.1:1".into(), ..cluster.settings.clone() };
    let timeout = Duration::from_millis(300);
    assert!(matches!(connect(&nobody, timeout), Err(CheckError::Unavailable { .. })));
    assert!(matches!(
        check_topics(&nobody, &cluster.topics, Indivisible::default(), false, timeout),
        Err(CheckError::Unavailable { .. })
    ));
}

#[test]
fn the_loss_of_the_broker_is_retriable_everywhere() {
    let cluster = Cluster::start(1, &[("transaction.timeout.ms", "1500"), ("socket.timeout.ms", "1000")]);
    let mut producer = cluster.producer(ProcessingGuarantee::ExactlyOnce);
    producer.begin().unwrap();
    cluster.broker.down().unwrap();
    producer.send(Outgoing::Bundle(&bundle("s-1"))).unwrap();
    let start = Instant::now();
    let error = producer.commit().unwrap_err();
    assert!(matches!(error, BrokerError::Retriable(_)), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    let mut changelog = Changelog::new(&cluster.settings, &cluster.topics);
    assert!(matches!(changelog.open(Partition(0)), Err(BrokerError::Retriable(_))));
    cluster.broker.up().unwrap();
    producer.abort().unwrap();
}
