//! `replay` and `report`: files in, files out, whole or not at all.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::{duplex, golden, run, text};

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").to_owned()
}

fn lines(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn replay_writes_bundles_dead_letters_and_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bundles, letters, report) = (path(&folder, "b.jsonl"), path(&folder, "d.jsonl"), path(&folder, "r.json"));
    let capture = golden("sessions.jsonl");
    let capture = capture.to_str().expect("UTF-8");
    let output = run(&["replay", capture, "--bundles", &bundles, "--dead-letters", &letters, "--report", &report]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("stream TTFP"), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "", "no progress bar where no terminal is");
    assert_eq!(lines(&bundles).len(), 156);
    let letters = lines(&letters);
    assert_eq!(letters.len(), 64);
    for letter in &letters {
        let keys: Vec<&str> = letter.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["detail", "key", "offset", "partition", "payload_bytes", "reason", "topic"]);
    }
    let built = path(&folder, "r2.json");
    let output = run(&["report", "--bundles", &bundles, "-o", &built]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        fs::read(built).expect("reads"),
        fs::read(report).expect("reads"),
        "one report, whichever way it is built"
    );
}

#[test]
fn a_payload_is_kept_only_where_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = path(&folder, "c.jsonl");
    fs::write(&capture, "{\"session_id\":\"a\",\"text\":\"PRIVATE\"} x\n").expect("writes");
    for (with_payload, expected) in [(false, false), (true, true)] {
        let letters = path(&folder, "d.jsonl");
        let mut arguments = vec!["replay", &capture, "--dead-letters", &letters];
        arguments.extend(with_payload.then_some("--with-payload"));
        assert_eq!(run(&arguments).status.code(), Some(0));
        assert_eq!(fs::read_to_string(&letters).expect("reads").contains("PRIVATE"), expected);
    }
}

#[test]
fn bare_events_are_known_by_their_session_id_or_the_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = path(&folder, "events.jsonl");
    let bundles = path(&folder, "b.jsonl");
    let event = |id: &str| format!("{{\"type\":\"session.created\"{id},\"_client_received_at_s\":1.5}}\n");
    fs::write(&capture, event(",\"session_id\":\"own\"") + "\n" + &event("")).expect("writes");
    assert_eq!(run(&["replay", &capture, "--bundles", &bundles]).status.code(), Some(0));
    let ids = |bundles: &str| lines(bundles).iter().map(|bundle| bundle["session_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&bundles), ["own"]);
    assert_eq!(run(&["replay", &capture, "--bundles", &bundles, "--session-id", "s"]).status.code(), Some(0));
    assert_eq!(ids(&bundles), ["own", "s"]);
}

#[test]
fn standard_input_and_output_serve_as_files() {
    let mut child = duplex()
        .args(["replay", "-", "--bundles", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let capture = fs::read(golden("wire.jsonl")).expect("reads");
    child.stdin.take().expect("piped").write_all(&capture).expect("writes");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout).lines().filter(|line| line.starts_with('{')).count(), 2);
    assert!(text(&output.stderr).contains("stream TTFP"), "the table goes where the bundles do not");
}

#[test]
fn a_damaged_capture_exits_65_names_the_line_and_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (capture, bundles) = (path(&folder, "c.jsonl"), path(&folder, "b.jsonl"));
    let good = fs::read_to_string(golden("wire.jsonl")).expect("reads");
    fs::write(&capture, good + r#"{"partition":"zero","offset":1,"payload":"{}"}"#).expect("writes");
    let output = run(&["replay", &capture, "--bundles", &bundles]);
    assert_eq!(output.status.code(), Some(65));
    assert!(text(&output.stderr).contains("line 95"), "{}", text(&output.stderr));
    assert!(!Path::new(&bundles).exists());
    assert_eq!(run(&["replay", &path(&folder, "missing.jsonl")]).status.code(), Some(65));
}

#[test]
fn merging_into_what_is_no_report_exits_65_and_leaves_it_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bundles, existing) = (path(&folder, "b.jsonl"), path(&folder, "r.json"));
    let wire = golden("wire.jsonl");
    run(&["replay", wire.to_str().expect("UTF-8"), "--bundles", &bundles]);
    for damaged in ["{", "[]", r#"{"duplex_request_metrics":7}"#, r#"{"duplex_session_metrics":[1]}"#] {
        fs::write(&existing, damaged).expect("writes");
        let output = run(&["report", "--bundles", &bundles, "--merge", &existing, "-o", &existing]);
        assert_eq!(output.status.code(), Some(65), "{damaged}: {}", text(&output.stderr));
        assert_eq!(fs::read_to_string(&existing).expect("reads"), damaged);
    }
    fs::remove_file(&existing).expect("removes");
    let output = run(&["report", "--bundles", &bundles, "--merge", &existing, "-o", &existing]);
    assert_eq!(output.status.code(), Some(0), "a missing file is an empty report: {}", text(&output.stderr));
    let output = run(&["report", "--bundles", &bundles, "--merge", &existing, "-o", &existing]);
    assert_eq!(output.status.code(), Some(0));
    let merged: Value = serde_json::from_slice(&fs::read(&existing).expect("reads")).expect("JSON");
    assert_eq!(
        merged["duplex_session_metrics"].as_array().map(Vec::len),
        Some(4),
        "rows without an identity are appended"
    );
}

#[test]
fn replay_of_many_runs_shows_some_of_them_the_same_every_time_and_says_how_many_it_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = path(&folder, "c.jsonl");
    let record = |run: u32| {
        let headers = serde_json::json!(["run_id", format!("run-{run:03}")]);
        let payload = r#"{"type":"session.closed"}"#;
        let record = serde_json::json!({"topic": "t", "partition": 0, "offset": run, "ts": 1_000, "headers": headers,
                                        "key": run.to_string(), "payload": payload});
        format!("{record}\n")
    };
    fs::write(&capture, (0..130).rev().map(record).collect::<String>()).expect("writes");
    let shown = text(&run(&["replay", &capture]).stdout);
    assert!(shown.contains("run-000") && shown.contains("run-099") && !shown.contains("run-100"), "{shown}");
    assert!(shown.contains("\n30 more runs are not shown: "), "{shown}");
}
