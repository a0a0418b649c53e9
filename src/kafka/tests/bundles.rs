//! The bundles topic, read from a time on and then what is before it.

use super::real::{cluster, producer};
use super::*;
use crate::clock::SystemClock;
use crate::time::Clock as _;

const HOUR: Duration = Duration::from_secs(3_600);

/// All that a reader reads until it has caught up, sorted.
fn read(reader: &mut BundleReader) -> Vec<String> {
    let mut read = Vec::new();
    let start = Instant::now();
    while !reader.caught_up() {
        assert!(start.elapsed() < PATIENCE);
        reader.poll(TICK, &mut |record| read.push(String::from_utf8(record.value.to_vec()).unwrap())).unwrap();
    }
    read.sort();
    read
}

#[test]
#[ignore = "needs KAFKA_BOOTSTRAP"]
fn what_was_written_since_a_time_and_what_was_before_are_the_whole_topic_each_record_once() {
    let (settings, topics) = cluster("since", 6, &[]);
    check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).unwrap();
    let now = SystemClock::new().now();
    let mut writer = Writer::new(&settings).unwrap();
    let mut write = |what: &str, count: usize, at: Timestamp| -> Vec<String> {
        let bundles: Vec<_> = (0..count).map(|n| format!("{what}-{n:02}")).collect();
        for bundle in &bundles {
            let key = Some(bundle.as_bytes());
            writer.send(&topics.bundles, key, bundle.as_bytes(), Some(at), &[]).unwrap();
        }
        writer.flush(PATIENCE).unwrap();
        bundles
    };
    // So few recent ones that some partition has none, and some has nothing else.
    let mut old = write("old", 12, now - 3 * HOUR);
    let recent = write("recent", 2, now - HOUR);
    let mut reader = BundleReader::since(&settings, &topics, now - 2 * HOUR).unwrap();
    assert_eq!(read(&mut reader), recent);
    // What comes later is the first reader's, transactions' markers and all.
    let later = write("later", 12, now);
    let mut transaction = producer(&settings, &topics, 0);
    transaction.begin().unwrap();
    transaction.send(Outgoing::Bundle(&bundle("last"))).unwrap();
    transaction.commit().unwrap();
    let mut earlier = reader.earlier(&settings, &topics).unwrap();
    old.sort();
    assert_eq!(read(&mut earlier), old);
    let mut rest = Vec::new();
    let start = Instant::now();
    while rest.len() < later.len() + 1 {
        assert!(start.elapsed() < PATIENCE, "{rest:?}");
        reader.poll(TICK, &mut |record| rest.push(String::from_utf8(record.value.to_vec()).unwrap())).unwrap();
    }
    rest.sort();
    assert_eq!(rest[..later.len()], later);

    let mut whole = BundleReader::since(&settings, &topics, now - 4 * HOUR).unwrap();
    assert_eq!(read(&mut whole).len(), old.len() + recent.len() + later.len() + 1);
    let mut nothing = whole.earlier(&settings, &topics).unwrap();
    assert_eq!(read(&mut nothing), [""; 0]);
}
