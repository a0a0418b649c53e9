//! Run-level figures: the same on every replica, before and after a restart, and the same as the offline report's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::service::{Deployment, Service};
use crate::topics::{Judge, send_all};
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
