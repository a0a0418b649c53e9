//! The service against real Apache Kafka: what it promises of exactly once, restarts, rebalances and a broker that is
//! not there. The processes are the real binary; only the topics, the exit status, HTTP and the log are looked at.
//!
//! A broker that does not start fails these tests. `KAFKA_BOOTSTRAP` names a cluster to use instead.

mod chaos;
mod cluster;
mod dead_letters;
mod expected;
mod headers;
mod instances;
mod loadgen;
mod many;
mod offsets;
mod operator;
mod panels;
mod privacy;
mod raw;
mod replaced;
mod runs;
mod service;
mod silence;
mod sizes;
mod state;
mod topics;
mod transport;
mod wait;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duplex_collector::cli::capture::CapturedRecord;
use duplex_collector::time::Timestamp;
use serde_json::Value;

use cluster::Cluster;
use expected::{assert_same_bytes, each_once, gauges_of, golden_values, replayed};
use service::{Deployment, Service};
use topics::{Judge, create_topics, send, send_all, writer};
use wait::{PATIENCE, until, until_true};

/// Sessions of the golden capture.
const CAPTURED: usize = 156;
/// When made-up traffic starts where nothing comes before it.
const START: Timestamp = Timestamp(1_700_000_000_000);

/// A deployment on the shared broker, topics made for old events.
fn deployment(test: &str) -> Deployment {
    let deployment = Deployment::new(cluster::shared(), test);
    create_topics(&deployment);
    deployment
}

/// Sends records while `act` acts on the service: some every few milliseconds, and what is left at once after it.
fn send_meanwhile<T>(deployment: &Deployment, records: &[CapturedRecord], act: impl FnOnce() -> T) -> T {
    const AT_ONCE: usize = 5;
    const PAUSE: Duration = Duration::from_millis(10);
    let acted = AtomicBool::new(false);
    thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut writer = writer(deployment);
            for (index, record) in records.iter().enumerate() {
                send(&mut writer, deployment, record);
                if index % AT_ONCE == 0 && !acted.load(Ordering::Relaxed) {
                    thread::sleep(PAUSE);
                }
            }
            writer.flush(PATIENCE).expect("the records are delivered");
        });
        // Ends the pauses also where `act` panics: the scope waits for the producer.
        struct Acted<'a>(&'a AtomicBool);
        impl Drop for Acted<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let ends = Acted(&acted);
        let result = act();
        assert!(!producer.is_finished(), "all records were sent before the end of what they were to be sent during");
        drop(ends);
        producer.join().expect("the producer ends well");
        result
    })
}

fn sessions_of(records: &[CapturedRecord]) -> BTreeSet<String> {
    let key = |record: &CapturedRecord| String::from_utf8(record.key.clone().expect("a key")).expect("UTF-8");
    records.iter().map(key).collect()
}

/// Waits for all bundles, ends the last process, and compares the topic with the offline answer.
fn assert_each_bundle_once_with_the_bytes_of_a_replay(
    deployment: &Deployment,
    records: &[CapturedRecord],
    judge: &mut Judge,
    last: Service,
) {
    let expected = replayed(deployment);
    assert_eq!(expected.bundles.keys().cloned().collect::<BTreeSet<_>>(), sessions_of(records));
    judge.read_until(expected.bundles.len());
    last.terminate_well();
    assert_same_bytes(&each_once(&Judge::all_of(deployment, "bundles")), &expected.bundles);
}

/// Compares what a report has of a run with the gauges, as numbers: to the last digit.
fn assert_run_gauges(service: &Service, run: &str, report: &Value, sessions: usize) {
    let expected = gauges_of(run, report, sessions);
    let mut gauges = BTreeMap::new();
    // The gauges follow the topic by a moment.
    until_true("the run view has every session", || {
        gauges = service.run_gauges();
        let (name, all) = expected.iter().find(|(name, _)| name.starts_with("duplex_run_sessions")).expect("a gauge");
        gauges.get(name).is_some_and(|shown| shown >= all)
    });
    gauges.retain(|name, _| expected.contains_key(name));
    assert_eq!(gauges, expected);
}

fn assert_gauges(service: &Service, report: &Value, sessions: usize) {
    assert_run_gauges(service, "default", report, sessions);
}

#[test]
fn the_capture_through_four_partitions_and_two_workers_gives_the_references_bundles_each_once() {
    let deployment = deployment("capture");
    let records = expected::capture();
    send_all(&deployment, &records);
    // Every session is closed; the grace of each partition's last ones passes in silence.
    let settings = [("DUPLEX_WORKER__COUNT", "2")];
    let service = deployment.start_ready("a", &settings);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(CAPTURED);

    let report = golden_values("sessions.duplex_metrics.json").remove(0);
    assert_gauges(&service, &report, CAPTURED);
    let (status, served) = service.get("/report").expect("the service answers");
    let served: Value = serde_json::from_str(&served).expect("JSON");
    assert_eq!((status, &served["runs"][0]["sessions"]), (200, &Value::from(CAPTURED)));
    for key in ["duplex_stream_ttft_ms", "duplex_stream_ttfp_ms", "duplex_stream_rtf"] {
        assert_eq!(served["runs"][0][key], report[key], "{key}");
    }
    service.terminate_well();

    let mut bundles = each_once(&Judge::all_of(&deployment, "bundles"));
    for expected in golden_values("sessions.bundles.jsonl") {
        let id = expected["session_id"].as_str().expect("an id");
        let bundle = bundles.remove(id).unwrap_or_else(|| panic!("no bundle of {id}"));
        let bundle: Value = serde_json::from_slice(&bundle).expect("JSON");
        for key in ["session_id", "request_metrics", "session_metrics", "output_tokens"] {
            assert_eq!(bundle[key], expected[key], "{key} of {id}");
        }
    }
    assert_eq!(bundles, BTreeMap::new(), "bundles the reference does not have");

    let letters = Judge::all_of(&deployment, "dead-letters");
    let reason = |headers: &[(String, String)]| {
        headers.iter().find(|(name, _)| name == "duplex.dead_letter.reason").map(|(_, reason)| reason.clone())
    };
    let mut letters: Vec<_> = letters
        .iter()
        .map(|letter| (letter.key.clone(), letter.value.clone(), reason(&letter.headers).expect("a reason")))
        .collect();
    let mut expected: Vec<_> = records.iter().filter_map(unreadable).collect();
    letters.sort_unstable();
    expected.sort_unstable();
    assert_eq!(letters, expected);
    assert_eq!(letters.len(), 64);
}

/// Key, value and reason of a record that is no JSON or no object.
fn unreadable(record: &CapturedRecord) -> Option<(Option<String>, Vec<u8>, String)> {
    let value = record.value.clone().expect("no tombstones here");
    // serde_json is stricter with what encoders write, which no line of that kind here ends on.
    let is_json =
        serde_json::from_slice::<serde::de::IgnoredAny>(&value).is_ok() || value.windows(3).any(|w| w == b"NaN");
    let reason = match (is_json, value.trim_ascii().starts_with(b"{")) {
        (true, true) => return None,
        (true, false) => "not_an_object",
        (false, _) => "invalid_json",
    };
    let key = record.key.clone().map(|key| String::from_utf8(key).expect("UTF-8"));
    Some((key, value, reason.into()))
}

#[test]
fn a_record_that_cannot_be_read_and_is_of_the_future_holds_nobody_up() {
    let deployment = deployment("future");
    let mut records = expected::traffic(6, 4, START);
    let sessions = sessions_of(&records);
    let mut unreadable = records[0].clone();
    unreadable.value = Some(b"no JSON".to_vec());
    // The events topic takes it; the dead letters' topic, as the service makes it, takes an hour at most.
    unreadable.timestamp = Some(expected::now() + Duration::from_secs(3 * 60 * 60));
    records.push(unreadable);
    send_all(&deployment, &records);
    let dead_letters = deployment.topic("dead-letters-of-the-service");
    let service = deployment.start_ready("a", &[("DUPLEX_TOPICS__DEAD_LETTERS", &dead_letters)]);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(sessions.len());
    service.terminate_well();
    assert_eq!(each_once(&Judge::all_of(&deployment, "bundles")).into_keys().collect::<BTreeSet<_>>(), sessions);
    let letters = Judge::all_of(&deployment, "dead-letters-of-the-service");
    assert_eq!(letters.iter().map(|letter| letter.value.as_slice()).collect::<Vec<_>>(), [b"no JSON"]);
}

#[test]
fn kill_nine_in_the_middle_and_a_restart_give_each_bundle_once_with_the_same_bytes() {
    /// After so many more bundles, and so many milliseconds into the next commit's interval.
    const KILLS: [(usize, u64); 3] = [(9, 35), (30, 0), (14, 80)];
    let settings = [("DUPLEX_WORKER__COUNT", "2")];
    let deployment = deployment("kill");
    let records = expected::capture_and_traffic(100);
    let (mut judge, last) = send_meanwhile(&deployment, &records, || {
        let mut service = deployment.start_ready("a", &settings);
        let mut judge = Judge::of(&deployment, "bundles");
        for (more, into_ms) in KILLS {
            let before = judge.read();
            judge.read_until(before + more);
            thread::sleep(Duration::from_millis(into_ms));
            service.kill();
            service = deployment.start_ready("a", &settings);
        }
        (judge, service)
    });
    let expected = replayed(&deployment);
    judge.read_until(expected.bundles.len());
    assert_gauges(&last, &expected.report, expected.bundles.len());
    last.terminate_well();

    let again = deployment.start_ready("a", &settings);
    assert_gauges(&again, &expected.report, expected.bundles.len());
    assert_each_bundle_once_with_the_bytes_of_a_replay(&deployment, &records, &mut judge, again);
}

#[test]
fn sigterm_under_load_exits_zero_within_25_seconds_and_loses_nothing() {
    let settings = [("DUPLEX_WORKER__COUNT", "2")];
    let deployment = deployment("sigterm");
    let records = expected::traffic(2, 100, START);
    let (mut judge, last) = send_meanwhile(&deployment, &records, || {
        let service = deployment.start_ready("a", &settings);
        let mut judge = Judge::of(&deployment, "bundles");
        judge.read_until(10);
        let (status, took) = service.terminate();
        assert!(status.success(), "the service ended with {status}");
        assert!(took < Duration::from_secs(25), "the drain took {took:?}");
        (judge, deployment.start_ready("a", &settings))
    });
    assert_each_bundle_once_with_the_bytes_of_a_replay(&deployment, &records, &mut judge, last);
}

#[test]
fn a_broker_that_is_not_there_is_waited_for() {
    const WATCHED: Duration = Duration::from_secs(10);
    let port = cluster::free_port();
    let deployment = Deployment::new(&format!("127.0.0.1:{port}"), "absent");
    let mut check = deployment.command("check");
    let checked = check.arg("--connect").output().expect("check can be run");
    assert_eq!(checked.status.code(), Some(69), "{}", String::from_utf8_lossy(&checked.stderr));

    let mut service = deployment.start("a", &[]);
    until_true("the service answers", || service.status("/livez").is_some());
    let why = until("readiness says what is waited for", || {
        service.get("/readyz").map(|(_, body)| body).filter(|body| body.starts_with("no way into kafka at "))
    });
    assert!(why.contains("Connection refused") && why.lines().count() == 1, "{why}");
    let began = Instant::now();
    let lines_before = service.log().lines().count();
    while began.elapsed() < WATCHED {
        assert_eq!(service.status("/livez"), Some(200));
        assert_eq!(service.get("/readyz"), Some((503, why.clone())));
        thread::sleep(Duration::from_millis(250));
    }
    let log = service.log();
    let lines: Vec<_> = log.lines().skip(lines_before).collect();
    assert!(log.contains("waiting for kafka"), "{log}");
    assert!(lines.len() <= 10, "{} lines in {WATCHED:?}:\n{}", lines.len(), lines.join("\n"));

    let _broker = Cluster::own(port, 1);
    service.wait_until_ready();
    // The service made the topics, with the broker's usual retention: not too old.
    let records = expected::traffic(3, 20, expected::now() - Duration::from_secs(60 * 60));
    send_all(&deployment, &records);
    let mut judge = Judge::of(&deployment, "bundles");
    assert_each_bundle_once_with_the_bytes_of_a_replay(&deployment, &records, &mut judge, service);
}

#[test]
fn at_least_once_loses_nothing_by_a_kill() {
    let settings = [("DUPLEX_WORKER__PROCESSING_GUARANTEE", "at_least_once")];
    let deployment = deployment("at-least-once");
    let records = expected::traffic(4, 80, START);
    let (mut judge, last) = send_meanwhile(&deployment, &records, || {
        let service = deployment.start_ready("a", &settings);
        let mut judge = Judge::of(&deployment, "bundles");
        judge.read_until(5);
        service.kill();
        (judge, deployment.start_ready("a", &settings))
    });
    let sessions = sessions_of(&records);
    until_true("every session has a bundle", || {
        judge.read();
        judge.records.iter().filter_map(|bundle| bundle.key.clone()).collect::<BTreeSet<_>>() == sessions
    });
    last.terminate_well();
}

#[test]
fn a_process_that_joins_and_one_that_leaves_take_no_bundle_along_and_write_none_twice() {
    let deployment = deployment("rebalance");
    let records = expected::traffic(5, 100, START);
    let (mut judge, last) = send_meanwhile(&deployment, &records, || {
        let first = deployment.start_ready("a", &[]);
        let mut judge = Judge::of(&deployment, "bundles");
        judge.read_until(5);
        let second = deployment.start_ready("b", &[]);
        until_true("the second process has partitions", || {
            second.get("/readyz").is_some_and(|(status, body)| status == 200 && body.contains("running 2 partitions"))
        });
        let before = judge.read();
        judge.read_until(before + 10);
        first.terminate_well();
        (judge, second)
    });
    assert_each_bundle_once_with_the_bytes_of_a_replay(&deployment, &records, &mut judge, last);
}
