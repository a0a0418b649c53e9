//! What gets a row, what kind a stage is, and how a bundle is written; the numbers themselves are the golden vectors'.

use serde_json::{Value, json};

use super::assemble;
use crate::collector::{Arrival, EndReason, Labels, ReceiveClock, SessionCollector, Settings};
use crate::ids::{Offset, Partition, SessionId, TopicPartition};
use crate::time::Timestamp;
use crate::wire::Decoder;

/// The bundle of a session with these events, one a second.
fn bundle(events: &[Value]) -> Value {
    bundle_within(usize::MAX, events)
}

fn bundle_within(max_bytes: usize, events: &[Value]) -> Value {
    let settings = Settings::default();
    let mut session: Option<SessionCollector> = None;
    let mut decoder = Decoder::new(1 << 20);
    for (event, at) in events.iter().zip(1..) {
        let arrival = Arrival {
            received_at_s: f64::from(at),
            clock: ReceiveClock::ClientMonotonic,
            timestamp: None,
            now: Timestamp(0),
            offset: Offset(at.into()),
            labels: Labels::default(),
        };
        let value = event.to_string();
        let event = decoder.decode(value.as_bytes()).expect("an event");
        let session = session.get_or_insert_with(|| SessionCollector::open(SessionId::from("s"), &arrival));
        session.handle_event(&event, &arrival, &settings);
    }
    let mut session = session.expect("an event");
    session.finish(&settings);
    let from = TopicPartition { topic: "events".into(), partition: Partition(3) };
    let assembled = assemble(&session, EndReason::Closed, &from, max_bytes);
    serde_json::from_slice(&assembled.json).expect("a bundle is JSON")
}

fn created(id: &str) -> Value {
    json!({"type": "response.created", "response_id": id})
}

fn audio(id: &str) -> Value {
    json!({"type": "response.output_audio.delta", "response_id": id, "delta": "AAAA"})
}

/// The blocks of a response whose stages are these.
fn blocks(stages: Value) -> Value {
    let done = json!({"type": "response.done", "response_id": "r", "vllm_omni": {"stage_metrics": stages}});
    bundle(&[created("r"), audio("r"), done])["request_metrics"][0]["stages"].clone()
}

#[test]
fn a_response_needs_audio_or_a_stage_0_for_a_row_and_keeps_its_index_without() {
    let silent = json!({"type": "response.output_text.delta", "response_id": "silent", "delta": "words"});
    let stage = json!({"type": "x", "response_id": "stage", "vllm_omni": {"stage_metrics": {"0": {}}}});
    let bundle = bundle(&[created("silent"), silent, created("stage"), stage, created("audio"), audio("audio")]);
    let rows: Vec<_> =
        bundle["request_metrics"].as_array().expect("rows").iter().map(|row| &row["request_index"]).collect();
    assert_eq!(rows, [1, 2]);
    assert_eq!(bundle["session_metrics"]["audio_turn_count"], 2);
    assert_eq!(bundle["request_metrics"][0].get("ttft_ms"), None);
}

#[test]
fn a_stage_is_of_the_kind_its_labels_or_its_values_say() {
    let blocks = blocks(json!({
        "b": {"vllm_itls_ms": ["x"]},
        "10": {"final_output_type": "audio", "serving_time_to_first_output_ms": 0},
        "2": {"output_unit_type": "stream"},
        "0": {"output_unit_type": "text"},
        "3": {"final_output_type": "images", "vllm_ttft_ms": 5, "stage_gen_time_ms": 7},
    }));
    let of = |id: &str, key: &str| blocks[id].get(key).is_some();
    assert!(of("0", "itls_ms") && of("b", "itls_ms"), "{blocks}");
    assert!(of("10", "audio_generated_frames") && !of("10", "ttfp_ms"), "{blocks}");
    assert!(of("2", "icls_ms"), "{blocks}");
    assert_eq!(
        blocks["3"],
        json!({"source": "engine_stage_metrics", "final_output_type": "images", "stage_gen_time_ms": 7.0})
    );
}

#[test]
fn what_is_not_finite_is_null_and_what_cannot_be_read_is_zero() {
    let value = r#"{"type":"x","response_id":"r","vllm_omni":{"stage_metrics":{"0":{"vllm_ttft_ms":NaN,"num_tokens_out":"many"}}}}"#;
    let mut decoder = Decoder::new(1000);
    let event = decoder.decode(value.as_bytes()).expect("an event");
    let settings = Settings::default();
    let arrival = Arrival {
        received_at_s: 1.0,
        clock: ReceiveClock::KafkaTimestamp,
        timestamp: Some(Timestamp(1000)),
        now: Timestamp(1000),
        offset: Offset(0),
        labels: Labels::default(),
    };
    let mut session = SessionCollector::open(SessionId::from("s"), &arrival);
    let created = created("r").to_string();
    session.handle_event(&Decoder::new(1000).decode(created.as_bytes()).expect("an event"), &arrival, &settings);
    session.handle_event(&event, &arrival, &settings);
    session.finish(&settings);
    let from = TopicPartition { topic: "events".into(), partition: Partition(0) };
    let assembled = assemble(&session, EndReason::IdleTimeout, &from, usize::MAX);
    let bundle: Value = serde_json::from_slice(&assembled.json).expect("a bundle is JSON");
    let tokens = &bundle["request_metrics"][0]["stage0_tokens"];
    assert_eq!((&tokens["ttft_ms"], &tokens["output_token_count"]), (&Value::Null, &json!(0)));
    assert_eq!(assembled.unreadable_values, 1);
}

#[test]
fn a_session_without_audio_has_no_stream_metrics_and_one_cut_short_is_unfinished() {
    let text = json!({"type": "response.text.delta", "response_id": "r", "delta": "words"});
    let bundle = bundle(&[created("r"), text]);
    assert_eq!(bundle["session_metrics"].get("stream_ttft_ms"), None);
    assert_eq!(bundle["session"]["responses"]["unfinished"], 1);
    assert_eq!(bundle["source"], json!({"topic": "events", "partition": 3, "first_offset": 1, "last_offset": 2}));
    assert_eq!(bundle["schema_version"], 1);
}

#[test]
fn a_bundle_too_large_leaves_out_its_last_rows_and_keeps_its_metrics() {
    let events: Vec<Value> = ["a", "b", "c", "d"].iter().flat_map(|id| [created(id), audio(id)]).collect();
    let whole = bundle(&events);
    let bundle = bundle_within(whole.to_string().len() - 1, &events);
    let rows: Vec<_> =
        bundle["request_metrics"].as_array().expect("rows").iter().map(|row| &row["response_id"]).collect();
    assert_eq!(rows, ["a", "b"]);
    assert_eq!((&bundle["session"]["truncated"], &whole["session"]["truncated"]), (&true.into(), &false.into()));
    assert_eq!(bundle["session_metrics"], whole["session_metrics"]);
}
