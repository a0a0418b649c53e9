//! Nothing private is stored or logged: markers in everything that is text, audio or secret, and none of them anywhere.

use std::fs;

use duplex_collector::cli::capture::CapturedRecord;
use serde_json::{Value, json};

use crate::service::{Deployment, Service, Shape};
use crate::topics::{Judge, create_topics, event, send_all};
use crate::wait::until_true;
use crate::{cluster, expected};

/// Letters of base64, so that it can stand for audio as well.
const MARKER: &str = "PRIVATEMARKERX";
/// A secret of the configuration.
const PASSWORD: &str = "PRIVATEMARKERXPASSWORD";

/// A session whose every private field has a marker. All but the last event.
fn events() -> Vec<Value> {
    let audio = format!("{MARKER}AA");
    let secret = format!("token-{MARKER}");
    let said = format!("he said {MARKER}");
    vec![
        json!({"type": "session.created", "resume_token": secret, "session": {
            "model": "m", "instructions": said, "resume_token": secret, "tools": [{"name": said}],
            "input_audio_transcription": {"prompt": said}, "client_secret": {"value": secret}}}),
        json!({"type": "session.update", "session": {"instructions": said, "ref_audio": audio, "ref_text": said}}),
        json!({"type": "session.resume", "resume_token": secret}),
        json!({"type": "session.resumed", "resume_token": secret, "session": {"resume_token": secret}}),
        json!({"type": "input_audio_buffer.append", "audio": audio}),
        json!({"type": "input_audio_buffer.append", "audio": {"of another type": said}}),
        json!({"type": "conversation.item.create", "item": {"content": [{"type": "input_text", "text": said}]}}),
        json!({"type": "conversation.item.input_audio_transcription.completed", "transcript": said}),
        json!({"type": "response.created", "response": {"id": "r", "instructions": said, "metadata": {"note": said}}}),
        json!({"type": "response.output_audio_transcript.delta", "response_id": "r", "delta": said}),
        json!({"type": "response.output_text.delta", "response_id": "r", "delta": said}),
        json!({"type": "response.text.delta", "response_id": "r", "delta": {"text": said}}),
        json!({"type": "response.output_audio.delta", "response_id": "r", "delta": audio}),
        json!({"type": "response.output_audio.delta", "response_id": "r", "delta": "", "audio": audio}),
        json!({"type": "response.output_audio.delta", "response_id": "r", "delta": said}),
        json!({"type": "response.output_audio.done", "response_id": "r", "transcript": said}),
        json!({"type": "response.function_call_arguments.done", "arguments": said, "name": said}),
        json!({"type": "error", "error": {"code": "bad_audio", "message": said, "param": said}}),
        json!({"type": format!("unknown.{MARKER}"), "text": said, MARKER: MARKER}),
        json!({"type": [MARKER], "delta": said, "_client_received_at_s": said}),
        json!({"type": "response.done", "response": {"id": "r", "status": "completed",
            "output": [{"content": [{"transcript": said, "audio": audio}]}],
            "metadata": {"vllm_omni": {"last_chunk": audio, "text": said,
                "stage_metrics": {"0": {"num_tokens_out": said, "prompt": said, "vllm_ttft_ms": 5.0}}}}}}),
    ]
}

/// Records that can't be read, one for each reason, and some whose error could quote them.
fn unreadable() -> Vec<CapturedRecord> {
    let marked = |text: &str| text.replace("MARK", MARKER);
    let mut records: Vec<_> = [
        r#"{"type":"MARK"#,
        r#"{"MARK":1,}"#,
        r#"{"type":"x"} MARK"#,
        r#"{MARK:1}"#,
        r#"MARK"#,
        r#""MARK""#,
        r#"["MARK"]"#,
        r#"{"type":"\uMARK"}"#,
        r#"{"a":trueMARK}"#,
        r#"{"_client_received_at_s":1e999,"text":"MARK"}"#,
    ]
    .map(|value| event("dead", marked(value)))
    .into();
    let nested = format!("{}\"{MARKER}\"{}", "[".repeat(200), "]".repeat(200));
    records.push(event("dead", nested));
    records.push(event("dead", [MARKER.as_bytes(), b"\xff\xfe"].concat()));
    records.push(event("dead", format!(r#"{{"text":"{}"}}"#, MARKER.repeat(5_000))));
    records.push(CapturedRecord { key: None, ..event("", format!(r#"{{"text":"{MARKER}"}}"#)) });
    let infinite = vec![("received_at_s".into(), Some(b"inf".to_vec()))];
    records.push(CapturedRecord { headers: infinite, ..event("dead", format!(r#"{{"text":"{MARKER}"}}"#)) });
    records
}

#[track_caller]
fn assert_unmarked(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(at) = text.find(MARKER) {
        let around: String = text[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
        panic!("{what} has a marker after {around:?}");
    }
}

/// Looks at every topic that the service writes; how many records there are on each.
fn assert_topics_unmarked(deployment: &Deployment) -> [usize; 3] {
    ["bundles", "changelog", "dead-letters"].map(|kind| {
        let records = Judge::all_of(deployment, kind);
        for record in &records {
            let headers: String = record.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            let key = record.key.clone().unwrap_or_default();
            assert_unmarked(kind, &[&record.value, key.as_bytes(), headers.as_bytes()].concat());
        }
        records.len()
    })
}

fn assert_pages_unmarked(service: &Service) {
    for path in ["/", "/metrics", "/report", "/status", "/livez", "/readyz", "/version"] {
        let (status, body) = service.get(path).expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        assert_unmarked(path, body.as_bytes());
    }
}

#[test]
fn markers_in_all_that_is_private_are_nowhere_at_the_most_verbose_level() {
    let properties = [("sasl.password", PASSWORD), ("sasl.username", "u"), ("debug", "all")];
    let properties = properties.map(|(name, value)| (name, value.to_owned())).into();
    let shape = Shape { partitions: 1, properties, ..Shape::default() };
    let deployment = Deployment::shaped(cluster::shared(), "privacy", shape);
    create_topics(&deployment);
    let settings = [
        ("DUPLEX_LOG__FILTER", "trace"),
        ("DUPLEX_DEAD_LETTERS__PAYLOAD", "drop"),
        ("DUPLEX_LIMITS__RECORD_BYTES", "20000"),
    ];
    let mut records: Vec<_> = events().iter().map(|json| event("s", json.to_string())).collect();
    let dead = unreadable();
    records.extend(dead.iter().cloned());
    send_all(&deployment, &records);
    let service = deployment.start_ready("a", &settings);
    Judge::of(&deployment, "dead-letters").read_until(dead.len());
    // The session is open: what is kept of it stands in the changelog.
    until_true("the session's state is written", || service.metric("duplex_sessions_open") == Some(1.0));
    let [bundles, changelog, dead_letters] = assert_topics_unmarked(&deployment);
    assert_eq!((bundles, dead_letters), (0, dead.len()));
    assert!(changelog >= 3, "{changelog} records on the changelog");
    assert_pages_unmarked(&service);
    let mut log = service.log();
    service.kill();

    // Restored, finished, and seen by whoever looks.
    let service = deployment.start_ready("a", &settings);
    send_all(&deployment, &[event("s", json!({"type": "session.closed", "reason": "done"}).to_string())]);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(1);
    until_true("the run view has it", || {
        service.get("/report").is_some_and(|(_, report)| report.contains("\"sessions\":1,"))
    });
    let bundle: Value = serde_json::from_slice(&judge.records[0].value).expect("JSON");
    let row = &bundle["request_metrics"][0];
    assert!(row["client_ttft_ms"].is_number() && row["audio_duration_ms"].as_f64() > Some(0.0), "{bundle}");
    assert_topics_unmarked(&deployment);
    assert_pages_unmarked(&service);
    log.push_str(&service.log());
    service.terminate_well();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "the log is not verbose");
    assert_unmarked("the log", log.as_bytes());

    // The tools: all but the payload that somebody asks for.
    let replayed = expected::replayed(&deployment);
    assert_unmarked("the report", replayed.report.to_string().as_bytes());
    let lines = deployment.files.path().join("dead.jsonl");
    let capture = deployment.files.path().join("capture.jsonl");
    let mut command = deployment.command("replay");
    let output = command.arg(&capture).arg("--dead-letters").arg(&lines).output().expect("replay can be run");
    assert_unmarked("replay", &[output.stdout, output.stderr].concat());
    assert_unmarked("dead letters of replay", &fs::read(lines).expect("a file"));
    let check = deployment.command("check").arg("--show-config").output().expect("check can be run");
    assert!(String::from_utf8_lossy(&check.stdout).contains("sasl.password"), "the secret is not configured");
    assert_unmarked("check", &[check.stdout, check.stderr].concat());
}
