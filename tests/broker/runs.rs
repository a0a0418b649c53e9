//! Run-level figures: the same on every replica, before and after a restart, and the same as the offline report's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use duplex_collector::time::Timestamp;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::service::{Deployment, Service};
use crate::topics::{Judge, config, send_all, writer};
use crate::wait::{PATIENCE, until_true};
use crate::{START, assert_run_gauges, deployment, expected, sessions_of};

/// `report` over the bundles of one run.
fn reported(deployment: &Deployment, run: &str, bundles: &[Vec<u8>]) -> Value {
    let path = |what: &str| deployment.files.path().join(format!("{run}.{what}"));
    let (lines, report) = (path("bundles.jsonl"), path("report.json"));
    fs::write(&lines, bundles.join(&b'\n')).expect("bundles can be written");
    let mut command = deployment.command("report");
    let output = command.arg("--bundles").arg(&lines).arg("-o").arg(&report).output().expect("report can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(report).expect("a report")).expect("JSON")
}

#[test]
fn every_replica_shows_the_offline_reports_figures_of_two_runs_before_and_after_a_restart() {
    let deployment = deployment("runs");
    let mut sessions = BTreeSet::new();
    for (run, seed) in [("nightly", 11), ("production", 12)] {
        let mut records = expected::traffic(seed, 60, START);
        for record in &mut records {
            // Both runs have the same made-up ids.
            let key = [run.as_bytes(), b"-", record.key.as_deref().expect("a key")].concat();
            record.key = Some(key);
            record.headers.push(("run_id".into(), Some(run.as_bytes().to_vec())));
        }
        sessions.extend(sessions_of(&records));
        send_all(&deployment, &records);
    }
    let [one, other] = ["a", "b"].map(|instance| deployment.start_ready(instance, &[]));
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(sessions.len());

    let mut by_run: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for record in Judge::all_of(&deployment, "bundles") {
        let bundle: Value = serde_json::from_slice(&record.value).expect("JSON");
        let run = bundle["session"]["run_id"].as_str().expect("a run").to_owned();
        by_run.entry(run).or_default().push(record.value);
    }
    assert_eq!(by_run.keys().collect::<Vec<_>>(), ["nightly", "production"]);
    let reports: Vec<_> =
        by_run.iter().map(|(run, bundles)| (run, reported(&deployment, run, bundles), bundles.len())).collect();
    let assert_all = |service: &Service| {
        reports.iter().for_each(|(run, report, sessions)| assert_run_gauges(service, run, report, *sessions));
    };
    assert_all(&one);
    assert_all(&other);
    assert_eq!(one.run_gauges(), other.run_gauges());
    one.kill();
    let again = deployment.start_ready("a", &[]);
    assert_all(&again);
    assert_eq!(again.run_gauges(), other.run_gauges());
    again.terminate_well();
    other.terminate_well();
}

/// Writes bundles of a run, spread over the partitions, straight to the topic.
fn write_bundles(deployment: &Deployment, run: &str, sessions: std::ops::Range<usize>) {
    let now = expected::now();
    // Each a millisecond after the one before.
    let at = |session| (run, session, now + Duration::from_millis(session as u64));
    write_bundles_at(deployment, sessions.map(at));
}

/// Writes a bundle for each run, number of a session and time.
fn write_bundles_at<'a>(deployment: &Deployment, bundles: impl Iterator<Item = (&'a str, usize, Timestamp)>) {
    let (mut writer, topic) = (writer(deployment), deployment.topic("bundles"));
    for (run, session, at) in bundles {
        let bundle = json!({
            "session_id": session.to_string(), "request_metrics": [],
            "session_metrics": {"stream_ttft_ms": session},
            "session": {"run_id": run, "model": format!("m{}", session % 3), "end_reason": "closed", "last_event_ms": at},
        });
        let key = session.to_string();
        writer.send(&topic, Some(key.as_bytes()), bundle.to_string().as_bytes(), Some(at), &[]).expect("queued");
    }
    writer.flush(PATIENCE).expect("the bundles are delivered");
}

fn admin(deployment: &Deployment) -> (AdminClient<DefaultClientContext>, Runtime) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    (config(&deployment.bootstrap).create().expect("an admin client"), runtime)
}

fn sessions(service: &Service) -> Vec<(String, f64)> {
    let is_count =
        |name: &str| name.starts_with("duplex_run_sessions{model=\"all\"") && name.contains("window=\"all\"");
    service.run_gauges().into_iter().filter(|(name, _)| is_count(name)).collect()
}

fn has(service: &Service, run: &str, count: usize) -> bool {
    let series = format!("duplex_run_sessions{{model=\"all\",run=\"{run}\",window=\"all\"}}");
    sessions(service) == [(series, count as f64)]
}

/// Waits until a replica that has been there all the while shows what one shows that has just begun.
fn assert_same_as_one_that_has_just_begun(deployment: &Deployment, service: &Service, run: &str, count: usize) {
    let begun = deployment.start_ready("c", &[]);
    assert!(has(&begun, run, count), "{:?}", sessions(&begun));
    until_true("what is gone has left the figures", || service.run_gauges() == begun.run_gauges());
    begun.terminate_well();
}

#[test]
fn runs_that_leave_and_come_back_are_the_same_on_every_replica_and_after_a_restart() {
    let settings = [("DUPLEX_RUN__MAX_RUNS", "2")];
    let deployment = deployment("leaving");
    let service = deployment.start_ready("a", &settings);
    Judge::of(&deployment, "bundles");
    let now = expected::now();
    let minutes = |minutes: u64| now - Duration::from_secs(60 * minutes);
    // What a start reads first is of the last hours, so it takes `late` for the first to leave, and knows better in the end.
    let began = [("early 1", 300), ("early 2", 300), ("early 3", 300), ("early 4", 300), ("late", 240), ("last", 180)];
    let went_on = [("late", 50), ("early 4", 40), ("early 3", 30), ("early 2", 20), ("early 1", 10)];
    let bundles = began.into_iter().chain(went_on).zip(0..);
    write_bundles_at(&deployment, bundles.map(|((run, ago), session)| (run, session, minutes(ago))));

    let shown = |service: &Service| {
        let series = |(run, count): (&str, f64)| {
            (format!("duplex_run_sessions{{model=\"all\",run=\"{run}\",window=\"all\"}}"), count)
        };
        sessions(service) == [("last", 1.0), ("late", 2.0)].map(series)
            && service.metric("duplex_runs_not_shown") == Some(4.0)
    };
    until_true("the runs that began last are shown", || shown(&service));
    let begun = deployment.start_ready("b", &settings);
    assert!(shown(&begun), "{:?}", sessions(&begun));
    assert_eq!(begun.run_gauges(), service.run_gauges());
    assert!(begun.log().contains("the bundles topic is read again"), "{}", begun.log());
    begun.terminate_well();
    service.terminate_well();
}

#[test]
fn bundles_that_are_deleted_leave_the_figures_of_every_replica() {
    let deployment = deployment("deleted");
    let service = deployment.start_ready("a", &[]);
    Judge::of(&deployment, "bundles");
    write_bundles(&deployment, "r", 0..80);
    until_true("all bundles are shown", || has(&service, "r", 80));

    let (admin, runtime) = admin(&deployment);
    let stored = Judge::all_of(&deployment, "bundles");
    let mut taken = TopicPartitionList::new();
    for partition in 0..deployment.shape.partitions {
        let offset = Offset::Offset(3 + i64::from(partition));
        taken.add_partition_offset(&deployment.topic("bundles"), partition, offset).expect("a position");
    }
    runtime.block_on(admin.delete_records(&taken, &AdminOptions::new())).expect("the broker answers");
    let left = stored.iter().filter(|record| record.offset >= 3 + i64::from(record.partition)).count();
    assert!((1..80).contains(&left), "{left}");
    assert_same_as_one_that_has_just_begun(&deployment, &service, "r", left);
    service.terminate_well();
}

/// Deletes the topic under a process that has read it, and makes another one with more bundles than the old one had: so no
/// partition ends before what was read of it.
fn made_anew(test: &str, is_suspended: bool) {
    let deployment = deployment(test);
    deployment.start_ready("a", &[]).terminate_well();
    write_bundles(&deployment, "old", 0..20);
    let service = deployment.start_ready("a", &[]);
    assert!(has(&service, "old", 20), "{:?}", sessions(&service));
    if is_suspended {
        service.signal("STOP");
        until_true("the service stands still", || service.is_stopped());
    }

    let (admin, runtime) = admin(&deployment);
    let (name, options) = (deployment.topic("bundles"), AdminOptions::new());
    let deleted = runtime.block_on(admin.delete_topics(&[&name], &options)).expect("the broker answers");
    assert_eq!(deleted, [Ok(name.clone())]);
    let topic = NewTopic::new(&name, deployment.shape.partitions, TopicReplication::Fixed(1));
    until_true("the topic is there again", || {
        let made = runtime.block_on(admin.create_topics([&topic], &options)).expect("the broker answers");
        made == [Ok(name.clone())]
    });
    write_bundles(&deployment, "new", 100..200);
    service.signal("CONT");
    assert_same_as_one_that_has_just_begun(&deployment, &service, "new", 100);
    service.terminate_well();
}

#[test]
fn a_bundles_topic_that_is_made_anew_has_nothing_of_the_old_one_on_any_replica() {
    made_anew("anew", false);
}

#[test]
fn a_bundles_topic_that_was_made_anew_while_nobody_looked_is_known_by_its_records() {
    made_anew("suspended", true);
}
