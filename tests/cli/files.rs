//! `replay` and `report`: files in, files out, whole or not at all.

use std::fs;
use std::io::{self, Write};
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

/// A session as bare events, one a line.
const EVENTS: &str = "{\"type\":\"session.created\",\"session_id\":\"s\",\"_client_received_at_s\":1}\n\
                      {\"type\":\"session.closed\",\"session_id\":\"s\",\"_client_received_at_s\":2}\n";

/// What `replay` says of a capture, from a file and from standard input: exit code and stderr.
fn replayed(capture: &[u8], bundles: &str) -> [(Option<i32>, String); 2] {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), capture).expect("writes");
    let of_file = run(&["replay", file.path().to_str().expect("UTF-8"), "--bundles", bundles]);
    let arguments = ["replay", "-", "--bundles", bundles];
    let mut child = duplex()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // In pieces, as a pipe may bring them. The process may end before it has read all of it.
    let mut stdin = child.stdin.take().expect("piped");
    let _ = stdin.write_all(&capture[..1]).and_then(|()| stdin.flush()).and_then(|()| stdin.write_all(&capture[1..]));
    drop(stdin);
    let of_stdin = child.wait_with_output().expect("ends");
    [of_file, of_stdin].map(|output| (output.status.code(), text(&output.stderr)))
}

#[test]
fn a_file_of_another_format_exits_65_with_the_format_s_name_and_a_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundles = path(&folder, "b.jsonl");
    let utf_16 = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
        mark.iter().copied().chain(EVENTS.encode_utf16().flat_map(bytes)).collect::<Vec<u8>>()
    };
    let events: Vec<Value> = EVENTS.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let pretty = |value: &Value| serde_json::to_vec_pretty(value).expect("JSON");
    let record = r#"{"topic":"t","key":"s","value":"{}","timestamp":1790001000000,"partition":0,"offset":0}"#;
    for (capture, name, remedy) in [
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(), "gzip", "through `gunzip -c` into `duplex-collector replay -`"),
        (b"\x28\xb5\x2f\xfd\x04\0\x0a".to_vec(), "zstd", "through `zstd -dc` into `duplex-collector replay -`"),
        (b"BZh91AY&SY".to_vec(), "bzip2", "through `bzip2 -dc` into `duplex-collector replay -`"),
        (b"\xfd7zXZ\0\0\x04".to_vec(), "xz", "through `xz -dc` into `duplex-collector replay -`"),
        (b"PK\x03\x04\x14\0".to_vec(), "zip", "through `funzip` into `duplex-collector replay -`"),
        (b"PAR1\x15\x04".to_vec(), "Parquet", "lines of JSON"),
        (
            utf_16(b"\xff\xfe", u16::to_le_bytes),
            "UTF-16",
            "through `iconv -f UTF-16 -t UTF-8` into `duplex-collector replay -`",
        ),
        (
            utf_16(b"\xfe\xff", u16::to_be_bytes),
            "UTF-16",
            "through `iconv -f UTF-16 -t UTF-8` into `duplex-collector replay -`",
        ),
        (
            utf_16(b"", u16::to_le_bytes),
            "UTF-16",
            "through `iconv -f UTF-16LE -t UTF-8` into `duplex-collector replay -`",
        ),
        (
            utf_16(b"", u16::to_be_bytes),
            "UTF-16",
            "through `iconv -f UTF-16BE -t UTF-8` into `duplex-collector replay -`",
        ),
        (
            serde_json::to_vec(&events).expect("JSON"),
            "one JSON array",
            "through `jq -c '.[]'` into `duplex-collector replay -`",
        ),
        (
            pretty(&Value::from(events.clone())),
            "one JSON array",
            "through `jq -c '.[]'` into `duplex-collector replay -`",
        ),
        (
            [b"\xef\xbb\xbf\n", &*pretty(&events[0])].concat(),
            "pretty-printed JSON",
            "through `jq -c .` into `duplex-collector replay -`",
        ),
        (record.into(), "records as rpk prints them", "payload:.value}'` into"),
    ] {
        let [of_file, of_stdin] = replayed(&capture, &bundles);
        assert!(of_stdin.1.contains("standard input can't be replayed"), "{name}: {}", of_stdin.1);
        for (code, stderr) in [of_file, of_stdin] {
            assert_eq!(code, Some(65), "{name}: {stderr}");
            assert!(stderr.contains(&format!("it is {name}, not one")) && stderr.contains(remedy), "{name}: {stderr}");
        }
        assert!(!Path::new(&bundles).exists(), "{name}");
    }
}

#[test]
fn a_cause_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = text(&run(&["replay", folder.path().to_str().expect("UTF-8")]).stderr);
    assert_eq!(said.matches("Is a directory").count(), 1, "{said}");
}

#[test]
fn whoever_reads_standard_output_may_have_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundles = path(&folder, "b.jsonl");
    let capture = golden("sessions.jsonl");
    let capture = capture.to_str().expect("UTF-8");
    assert_eq!(run(&["replay", capture, "--bundles", &bundles]).status.code(), Some(0));
    for arguments in [
        &["--help"][..],
        &["check", "--show-config"],
        &["replay", capture],
        &["replay", capture, "--bundles", "-"],
        &["report", "--bundles", &bundles, "-o", "-"],
    ] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let output = duplex().args(arguments).stdout(writer).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let output = output.wait_with_output().expect("ends");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("error"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_byte_order_mark_at_the_beginning_of_a_file_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundles = ["with", "without"].map(|name| path(&folder, name));
    for (capture, bundles) in [format!("\u{feff}{EVENTS}"), EVENTS.to_owned()].iter().zip(&bundles) {
        for (code, stderr) in replayed(capture.as_bytes(), bundles) {
            assert_eq!((code, stderr.as_str()), (Some(0), ""));
        }
    }
    let [with, without] = bundles.map(|bundles| fs::read(bundles).expect("reads"));
    assert_eq!(with, without);
}
