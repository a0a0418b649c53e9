//! A topic that falls silent: sessions end by the wall clock, once, and what comes after is late, restart or not.

use std::time::Duration;

use duplex_collector::cli::capture::CapturedRecord;
use duplex_collector::time::Timestamp;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use serde_json::Value;

use crate::expected::now;
use crate::service::{Deployment, Shape};
use crate::topics::{Judge, Stored, config, create_topics, event, send_all};
use crate::wait::{PATIENCE, until_true};
use crate::{cluster, deployment};

const SETTINGS: [(&str, &str); 1] = [("DUPLEX_SESSION__IDLE_TIMEOUT", "2s")];

#[test]
fn a_session_that_fell_silent_ends_once_and_its_late_events_are_late_after_a_restart_too() {
    const LATE: &str = r#"duplex_events_total{class="response",outcome="late"}"#;
    let deployment = deployment("silence");
    send_all(&deployment, &[event("s", r#"{"type":"session.created"}"#)]);
    let service = deployment.start_ready("a", &SETTINGS);
    let mut judge = Judge::of(&deployment, "bundles");
    // Nothing else is written: only the wall clock can end it.
    judge.read_until(1);
    let bundle: Value = serde_json::from_slice(&judge.records[0].value).expect("JSON");
    assert_eq!((&bundle["session_id"], &bundle["session"]["end_reason"]), (&"s".into(), &"idle_timeout".into()));
    // Not in good order: the marker came with the bundle, not with the drain.
    service.kill();

    let service = deployment.start_ready("a", &SETTINGS);
    send_all(&deployment, &[event("s", r#"{"type":"response.speak"}"#)]);
    until_true("the late event is counted", || service.metric(LATE) == Some(1.0));
    service.terminate_well();
    let service = deployment.start_ready("a", &SETTINGS);
    send_all(&deployment, &[event("s", r#"{"type":"response.speak"}"#), event("t", r#"{"type":"session.created"}"#)]);
    judge.read_until(2);
    until_true("the late event is counted", || service.metric(LATE) == Some(1.0));
    service.terminate_well();
    let mut keys: Vec<_> = Judge::all_of(&deployment, "bundles").into_iter().filter_map(|bundle| bundle.key).collect();
    // Their partitions are read in any order.
    keys.sort_unstable();
    assert_eq!(keys, ["s", "t"]);
}

#[test]
fn in_a_backlog_a_session_an_hour_ahead_ends_nobody_else_s_and_has_its_own_bundle_too() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let deployment = Deployment::shaped(cluster::shared(), "ahead", Shape { partitions: 1, ..Shape::default() });
    create_topics(&deployment);
    let began = now() - 5 * HOUR;
    let at = |at: Timestamp, key, value: &str| CapturedRecord { timestamp: Some(at), ..event(key, value) };
    let second = |n: u64| began + Duration::from_secs(n);
    let backlog = [
        at(began, "victim", r#"{"type":"session.created"}"#),
        at(began, "other", r#"{"type":"session.created"}"#),
        at(began + HOUR, "fast", r#"{"type":"session.created"}"#),
        at(second(1), "victim", r#"{"type":"response.speak"}"#),
        at(second(2), "other", r#"{"type":"session.closed"}"#),
        at(second(3), "victim", r#"{"type":"session.closed"}"#),
    ];
    send_all(&deployment, &backlog);
    let service = deployment.start_ready("a", &[("DUPLEX_SESSION__IDLE_TIMEOUT", "5s")]);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(3);
    service.terminate_well();
    let life = |record: &Stored| {
        let bundle: Value = serde_json::from_slice(&record.value).expect("JSON");
        let session = &bundle["session"];
        (record.key.clone().expect("a key"), session["end_reason"].to_string(), session["events"].to_string())
    };
    let mut lives: Vec<_> = judge.records.iter().map(life).collect();
    lives.sort_unstable();
    let expected = [("fast", "idle_timeout", 1), ("other", "closed", 2), ("victim", "closed", 3)];
    assert_eq!(lives, expected.map(|(id, reason, events)| (id.into(), format!("{reason:?}"), events.to_string())));
}

#[test]
fn events_behind_another_producers_open_transaction_are_no_silence_and_are_named() {
    let deployment = deployment("undecided");
    let service = deployment.start_ready("a", &[("DUPLEX_SESSION__IDLE_TIMEOUT", "5s")]);
    let mut config = config(&deployment.bootstrap);
    config.set("transactional.id", &deployment.name).set("partitioner", "murmur2_random");
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("it has no predecessor");
    producer.begin_transaction().expect("it is registered");
    send_all(&deployment, &[event("s", r#"{"type":"session.created"}"#)]);
    let (topic, second) = (deployment.topic("events"), event("s", r#"{"type":"response.speak"}"#));
    let (key, value) = (second.key.expect("a key"), second.value.expect("a value"));
    let timestamp = second.timestamp.expect("a timestamp").0;
    let record = BaseRecord::to(&topic).key(&key).payload(&value).timestamp(timestamp);
    producer.send(record).map_err(|(error, _)| error).expect("it is queued");
    until_true("it is on the broker", || {
        producer.poll(Duration::from_millis(10));
        producer.in_flight_count() == 0
    });

    until_true("the gauge shows it", || service.metric("duplex_partition_undecided_records") == Some(1.0));
    // Twice the time of silence that ends a session.
    until_true("readiness names it", || {
        let (status, body) = service.get("/readyz").expect("the service answers");
        status == 503 && body.contains("waits for an open transaction of another producer, for 10 s")
    });
    let mut judge = Judge::of(&deployment, "bundles");
    assert_eq!(judge.read(), 0, "the session goes on");
    assert!(service.metric("duplex_partition_lag_records") >= Some(1.0));
    producer.commit_transaction(PATIENCE).expect("it is decided");
    judge.read_until(1);
    let bundle: Value = serde_json::from_slice(&judge.records[0].value).expect("JSON");
    assert_eq!((&bundle["source"]["first_offset"], &bundle["source"]["last_offset"]), (&0.into(), &1.into()));
    until_true("it is ready again", || service.status("/readyz") == Some(200));
    service.terminate_well();
}
