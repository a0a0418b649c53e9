//! Header names that are no UTF-8, which rdkafka panics at: nobody is held up, and nothing fills the disk with it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::raw::{RawRecord, produce};
use crate::topics::{Judge, event, send_all};
use crate::{deployment, expected};

fn record(key: &str, value: &str, names: &[&[u8]]) -> RawRecord {
    let headers = names.iter().map(|name| (name.to_vec(), b"v".to_vec())).collect();
    RawRecord { key: key.into(), value: value.into(), headers }
}

#[test]
fn header_names_that_are_not_utf8_cost_next_to_nothing_and_the_others_are_read() {
    const RECORDS: usize = 100_000;
    let deployment = deployment("foreign-headers");
    let (topic, now) = (deployment.topic("events"), expected::now().0);
    let write = |records: &[RawRecord]| produce(&deployment.bootstrap, &topic, 0, now, records);
    // Two of them, and one that tells.
    let names: [&[u8]; 3] = [b"\xff\xfe", b"\xc3", b"run_id"];
    write(&[record("told", r#"{"type":"session.created"}"#, &names)]);
    let speak = |n: usize| record(&format!("s-{}", n % 100), r#"{"type":"response.speak"}"#, &names);
    for first in (0..RECORDS).step_by(5_000) {
        write(&(first..first + 5_000).map(speak).collect::<Vec<_>>());
    }
    // As many as there is room for, in an event and in what is none.
    let many = vec![&b"\xff"[..]; 200_000];
    write(&[record("many", r#"{"type":"session.created"}"#, &many)]);
    write(&[record("many", "no JSON", &many)]);
    write(&[record("told", r#"{"type":"session.closed"}"#, &names)]);
    let began = Instant::now();
    let service = deployment.start_ready("a", &[]);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(1);
    let took = began.elapsed();
    let mut letters = Judge::of(&deployment, "dead-letters");
    letters.read_until(1);
    // The partition goes on.
    send_all(&deployment, &[event("last", r#"{"type":"session.closed"}"#)]);
    judge.read_until(2);
    let log = service.log();
    println!("{RECORDS} records and two with 200,000 headers: {took:?}, {} bytes of log", log.len());
    assert!(log.len() < 50_000, "{} bytes: {}", log.len(), &log[..2_000]);
    assert!(log.contains("headers whose names are not UTF-8 are left out") && !log.contains("panicked"), "{log}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    service.terminate_well();
    let told = judge.records.iter().find(|bundle| bundle.key.as_deref() == Some("told")).expect("a bundle");
    let told: Value = serde_json::from_slice(&told.value).expect("JSON");
    assert_eq!(told["session"]["run_id"], "v");
}
