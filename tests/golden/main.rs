//! The reference's own answers: every vector, session by session and as a report.

mod outcomes;
mod snapshots;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use duplex_collector::cli::capture::{Capture, CapturedRecord};
use duplex_collector::collector::Settings;
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::report::Report;
use duplex_collector::task::{CommitBatch, PartitionTask};
use duplex_collector::time::Timestamp;
use serde_json::Value;

/// The wall clock of these tests: later than every vector.
const WALL: Timestamp = Timestamp(1_800_000_000_000);

fn vector(name: &str) -> BufReader<File> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    BufReader::new(File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

fn json_lines(name: &str) -> Vec<Value> {
    serde_json::Deserializer::from_reader(vector(name)).into_iter().map(|value| value.expect("JSON")).collect()
}

fn records(name: &str) -> Vec<CapturedRecord> {
    let mut capture = Capture::new(vector(name), None);
    std::iter::from_fn(|| capture.next_record().expect("the capture can be read")).collect()
}

fn source() -> TopicPartition {
    TopicPartition { topic: "duplex.events".into(), partition: Partition(0) }
}

fn replay(name: &str) -> CommitBatch {
    let mut task = PartitionTask::new(source(), Offset(0), Arc::new(Settings::default()));
    for record in records(name) {
        task.process(&record.as_record(), WALL);
    }
    task.end_of_input();
    task.prepare_commit().expect("a capture has effects")
}

/// Bundles by session id.
fn bundles(batch: &CommitBatch) -> BTreeMap<String, Value> {
    let parse = |json: &[u8]| serde_json::from_slice::<Value>(json).expect("a bundle is JSON");
    let by_session: BTreeMap<_, _> =
        batch.bundles.iter().map(|bundle| (bundle.session_id.to_string(), parse(&bundle.json))).collect();
    assert_eq!(by_session.len(), batch.bundles.len(), "one bundle a session");
    by_session
}

/// What both have to say: numbers exactly; ours may have more keys at the top level.
fn assert_bundles_equal(name: &str) {
    let batch = replay(&format!("{name}.jsonl"));
    let mut ours = bundles(&batch);
    let mut different = Vec::new();
    for expected in json_lines(&format!("{name}.bundles.jsonl")) {
        let id = expected["session_id"].as_str().expect("an id").to_owned();
        let ours = ours.remove(&id).unwrap_or_else(|| panic!("no bundle of {id}"));
        for (key, expected) in expected.as_object().expect("an object") {
            if ours[key] != *expected {
                different.push(format!("{id}: {key}\n  ours      {}\n  reference {expected}", ours[key]));
            }
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different[..different.len().min(3)].join("\n"));
    assert!(ours.is_empty(), "bundles the reference does not have: {:?}", ours.keys());
}

fn assert_report_equal(name: &str) {
    let mut report = Report::default();
    for bundle in &replay(&format!("{name}.jsonl")).bundles {
        report.add_bundle(str::from_utf8(&bundle.json).expect("UTF-8")).expect("a bundle");
    }
    let mut ours: Value = serde_json::from_slice(&report.to_json()).expect("a report is JSON");
    let mut expected = json_lines(&format!("{name}.duplex_metrics.json")).remove(0);
    for report in [&mut ours, &mut expected] {
        for rows in ["duplex_request_metrics", "duplex_session_metrics"] {
            let rows = report[rows].as_array_mut().expect("rows");
            rows.sort_by_key(|row| (row["session_id"].to_string(), row["request_index"].as_u64()));
        }
    }
    assert_eq!(ours, expected);
}

#[test]
fn bundles_of_made_up_sessions_are_the_references() {
    assert_bundles_equal("sessions");
}

#[test]
fn bundles_of_the_servers_wire_format_are_the_references() {
    assert_bundles_equal("wire");
}

#[test]
fn the_report_of_made_up_sessions_is_the_references() {
    assert_report_equal("sessions");
}

#[test]
fn the_report_of_the_servers_wire_format_is_the_references() {
    assert_report_equal("wire");
}

#[test]
fn dead_letters_are_the_records_that_are_no_json_or_no_object() {
    let batch = replay("sessions.jsonl");
    let mut expected = Vec::new();
    for record in records("sessions.jsonl") {
        let value = record.value.expect("no tombstones here");
        // serde_json is stricter with what encoders write, which no line of that kind here ends on.
        let is_object = value.trim_ascii().starts_with(b"{");
        let is_json =
            serde_json::from_slice::<serde::de::IgnoredAny>(&value).is_ok() || value.windows(3).any(|w| w == b"NaN");
        if !(is_object && is_json) {
            expected.push((record.offset, if is_json { "not_an_object" } else { "invalid_json" }));
        }
    }
    let ours: Vec<_> = batch.dead_letters.iter().map(|letter| (letter.offset, letter.reason.as_str())).collect();
    assert_eq!(ours, expected);
    assert_eq!(ours.len(), 64);
}
