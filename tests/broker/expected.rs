//! What goes in, and what has to come out for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duplex_collector::cli::capture::{Capture, CapturedRecord};
use duplex_collector::clock::SystemClock;
use duplex_collector::ids::{Offset, Partition};
use duplex_collector::synth::{Profile, Share, Traffic};
use duplex_collector::time::{Clock as _, Timestamp};
use serde_json::Value;

use crate::service::Deployment;
use crate::topics::{Judge, Stored};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The golden capture.
pub fn capture() -> Vec<CapturedRecord> {
    let file = File::open(golden("sessions.jsonl")).expect("the capture is there");
    let mut capture = Capture::new(BufReader::new(file), None);
    std::iter::from_fn(|| capture.next_record().expect("the capture can be read")).collect()
}

/// A golden file of JSON values, one a line.
pub fn golden_values(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(golden(name)).expect("the file is there");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Made-up sessions, many at once. Each of them is closed.
pub fn traffic(seed: u64, sessions: u64, start: Timestamp) -> Vec<CapturedRecord> {
    let profile = Profile {
        seed,
        sessions,
        start,
        concurrency: 30,
        payload_bytes: Some(30),
        abandoned: Share::NONE,
        ..Profile::default()
    };
    let record = |event: duplex_collector::synth::Event| CapturedRecord {
        topic: None,
        partition: Partition(0),
        offset: Offset(0),
        timestamp: Some(event.at),
        key: Some(event.session.as_str().as_bytes().to_vec()),
        value: Some(event.value),
        headers: Vec::new(),
    };
    Traffic::new(profile).map(record).collect()
}

/// The capture, then made-up traffic of a later day, whose time lets the grace of the capture's last sessions pass.
///
/// So no end rests on the wall clock, and offline the same bundles come out to the byte.
pub fn capture_and_traffic(sessions: u64) -> Vec<CapturedRecord> {
    let mut records = capture();
    let last = records.iter().filter_map(|record| record.timestamp).max().expect("the capture has timestamps");
    records.extend(traffic(1, sessions, last + DAY));
    // A timestamp ahead of the wall clock moves no time, so a machine whose clock is behind gets an earlier capture.
    let ahead = (last + 3 * DAY).since(now());
    for record in &mut records {
        record.timestamp = record.timestamp.map(|timestamp| timestamp - ahead);
    }
    records
}

/// The wall clock.
pub fn now() -> Timestamp {
    SystemClock::new().now()
}

/// The offline answer to what stands on a topic.
pub struct Replayed {
    /// By session.
    pub bundles: BTreeMap<String, Vec<u8>>,
    pub report: Value,
    /// Records on the topic.
    pub records: usize,
}

/// Replays the events topic: bundles name partitions and offsets, so only what stands there gives the same bytes.
pub fn replayed(deployment: &Deployment) -> Replayed {
    let file = |name: &str| deployment.files.path().join(name);
    let (capture, bundles, report) = (file("capture.jsonl"), file("bundles.jsonl"), file("report.json"));
    let mut lines = String::new();
    let records = Judge::all_of(deployment, "events");
    for record in &records {
        writeln!(lines, "{}", record.as_kcat(&deployment.topic("events"))).expect("a string takes everything");
    }
    fs::write(&capture, lines).expect("the capture can be written");
    let mut command = deployment.command("replay");
    command.arg(&capture).arg("--bundles").arg(&bundles).arg("--report").arg(&report);
    let output = command.output().expect("replay can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = fs::read(&bundles).expect("replay wrote bundles");
    let bundles = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        let bundle: Value = serde_json::from_slice(line).expect("JSON");
        (bundle["session_id"].as_str().expect("an id").to_owned(), line.to_vec())
    });
    let report = serde_json::from_slice(&fs::read(&report).expect("replay wrote a report")).expect("JSON");
    Replayed { bundles: bundles.collect(), report, records: records.len() }
}

/// The bundles by session.
///
/// # Panics
/// When there are two of one session.
pub fn each_once(records: &[Stored]) -> BTreeMap<String, Vec<u8>> {
    let mut bundles = BTreeMap::new();
    for record in records {
        let session = record.key.clone().expect("a bundle has a key");
        let earlier = bundles.insert(session, record.value.clone());
        assert!(earlier.is_none(), "two bundles of {:?}", record.key);
    }
    bundles
}

/// Compares to the byte, and says which sessions differ.
#[track_caller]
pub fn assert_same_bytes(bundles: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    let missing: Vec<_> = expected.keys().filter(|id| !bundles.contains_key(*id)).collect();
    assert!(missing.is_empty(), "{} of {} bundles are missing: {missing:?}", missing.len(), expected.len());
    for (id, bundle) in bundles {
        let expected = expected.get(id).unwrap_or_else(|| panic!("{id} has a bundle and no session"));
        assert!(
            bundle == expected,
            "bundle of {id}\n  is        {}\n  should be {}",
            String::from_utf8_lossy(bundle),
            String::from_utf8_lossy(expected),
        );
    }
}

/// The gauges that a report's distributions over the stream make, by series: of a whole run over all models.
pub fn gauges_of(run: &str, report: &Value, sessions: usize) -> BTreeMap<String, f64> {
    let whole = format!(r#"{{model="all",run="{run}",window="all"}}"#);
    let mut gauges = BTreeMap::from([(format!("duplex_run_sessions{whole}"), sessions as f64)]);
    let families = [
        ("rtf", "", "duplex_stream_rtf", 0),
        ("ttfp", "_seconds", "duplex_stream_ttfp_ms", -3),
        ("ttft", "_seconds", "duplex_stream_ttft_ms", -3),
    ];
    for (name, unit, key, exponent) in families {
        // The report's own digits.
        let in_unit = |value: f64| format!("{value}e{exponent}").parse().expect("a number");
        let figure = |field: &str| report[key][field].as_f64().unwrap_or_else(|| panic!("{key} has {field}"));
        for field in ["mean", "p50", "p99"] {
            gauges.insert(format!("duplex_stream_{name}{unit}_{field}{whole}"), in_unit(figure(field)));
        }
        gauges.insert(format!("duplex_stream_{name}_samples{whole}"), figure("count"));
    }
    gauges
}
