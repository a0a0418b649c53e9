//! What gets a row, what kind a stage is, and how a bundle is written; the numbers themselves are the golden vectors'.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Assembled, LatencySource, StreamMeasures, assemble};
use crate::collector::{
    Arrival, EndReason, FinalStatus, Labels, ReceiveClock, SessionClock, SessionCollector, Settings,
};
use crate::ids::{Offset, Partition, SessionId, TopicPartition};
use crate::time::Timestamp;
use crate::wire::Decoder;

/// The bundle of a session with these events, one a second.
fn bundle(events: &[Value]) -> Value {
    serde_json::from_slice(&assembled(events, |_| ReceiveClock::ClientMonotonic).json).expect("JSON")
}

/// A session whose events come by the clocks that `clock_of` tells for the first, second and so on.
fn assembled(events: &[Value], clock_of: impl Fn(u32) -> ReceiveClock) -> Assembled {
    let settings = Settings::default();
    let mut session: Option<SessionCollector> = None;
    let mut decoder = Decoder::new(1 << 20);
    for (event, at) in events.iter().zip(1..) {
        let arrival = Arrival {
            received_at_s: f64::from(at),
            clock: clock_of(at),
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
    assemble(&session, EndReason::Closed, &from)
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
    let assembled = assemble(&session, EndReason::IdleTimeout, &from);
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
fn a_bundle_in_parts_has_every_row_and_response_once_in_order_and_all_else_in_its_first() {
    let events: Vec<Value> = ["a", "b", "c", "d"].iter().flat_map(|id| [created(id), audio(id)]).collect();
    let whole = assembled(&events, |_| ReceiveClock::ClientMonotonic);
    let json: Value = serde_json::from_slice(&whole.json).expect("JSON");
    let rows = json["request_metrics"].as_array().expect("a list").len();
    assert_eq!((rows, json["responses"].as_array().expect("a list").len()), (4, 4));
    let mut numbers = BTreeSet::new();
    for max_bytes in (0..=whole.json.len()).rev().step_by(7) {
        let parts: Vec<Value> = whole
            .cuts
            .parts(&whole.json, max_bytes)
            .map(|part| {
                let part: Value = serde_json::from_slice(&part).expect("JSON");
                let elements = |list: &str| part[list].as_array().expect("a list").len();
                let pieces = elements("request_metrics") + elements("responses") + usize::from(part["part"] == 0);
                assert!(part.to_string().len() <= max_bytes || pieces <= 1, "{max_bytes}: {part}");
                part
            })
            .collect();
        numbers.insert(parts.len());
        if let [only] = &parts[..] {
            assert_eq!(only, &json);
            continue;
        }
        let mut together = parts[0].clone();
        for key in ["part", "parts"] {
            together.as_object_mut().expect("an object").remove(key);
        }
        for (part, at) in parts.iter().zip(0..) {
            assert_eq!((&part["part"], &part["parts"]), (&json!(at), &json!(parts.len())));
            if at > 0 {
                assert_eq!(part.as_object().expect("an object").len(), 4, "{part}");
                for list in ["request_metrics", "responses"] {
                    let elements = part[list].as_array().expect("a list").clone();
                    together[list].as_array_mut().expect("a list").extend(elements);
                }
            }
        }
        assert_eq!(together, json);
    }
    assert!(numbers.contains(&1) && numbers.contains(&2) && numbers.contains(&9), "{numbers:?}");
}

#[test]
fn every_known_response_is_listed_with_its_times_from_the_stream_start() {
    let bundle = bundle(&[
        json!({"type": "input_audio_buffer.append"}),
        created("r"),
        json!({"type": "response.output_text.delta", "response_id": "r", "delta": "words"}),
        audio("r"),
        audio("r"),
        json!({"type": "input_audio_buffer.speech_started"}),
        created("silent"),
        json!({"type": "response.done", "response": {"id": "r", "status": "cancelled"}}),
        json!({"type": "response.cancel", "response_id": "silent"}),
    ]);
    assert_eq!(
        bundle["responses"],
        json!([
            {
                "response_id": "r", "status": "cancelled", "ttft_source": "client", "ttfp_source": "client",
                "created_ms": 1000.0, "first_text_ms": 2000.0, "first_audio_ms": 3000.0, "last_audio_ms": 4000.0,
                "ended_ms": 7000.0, "audio_packets": 2, "audio_duration_ms": 0.125, "max_audio_gap_ms": 1000.0,
                "underruns": 1, "underrun_ms": 999.938, "speech_to_cancel_ms": 2000.0,
            },
            {
                "response_id": "silent", "status": "unfinished", "ttft_source": null, "ttfp_source": null,
                "created_ms": 6000.0, "first_text_ms": null, "first_audio_ms": null, "last_audio_ms": null,
                "ended_ms": 8000.0, "audio_packets": 0, "audio_duration_ms": 0.0, "max_audio_gap_ms": null,
                "underruns": 0, "underrun_ms": 0.0, "speech_to_cancel_ms": null,
            },
        ])
    );
    assert_eq!(bundle["session"]["duration_ms"], 8000.0);
}

#[test]
fn a_latency_is_the_server_s_where_it_told_one() {
    let metrics = json!({"response_request_metrics": {"ttfp_ms": 7.5}});
    let done = json!({"type": "response.done", "response_id": "r", "vllm_omni": metrics});
    let entry = &bundle(&[created("r"), audio("r"), done])["responses"][0];
    // There was no text, and the server said nothing of it.
    assert_eq!((&entry["ttft_source"], &entry["ttfp_source"]), (&Value::Null, &json!("server")));
}

#[test]
fn only_speech_over_a_response_cancels_it() {
    let speech = || json!({"type": "input_audio_buffer.speech_started"});
    let done = |status| json!({"type": "response.done", "response": {"id": "r", "status": status}});
    let speech_to_end = |events: &[Value]| bundle(events)["responses"][0]["speech_to_cancel_ms"].clone();
    // The last onset counts.
    assert_eq!(speech_to_end(&[created("r"), speech(), speech(), done("cancelled")]), json!(1000.0));
    // What the user said before is what it answers.
    assert_eq!(speech_to_end(&[speech(), created("r"), done("cancelled")]), Value::Null);
    assert_eq!(speech_to_end(&[created("r"), speech(), done("completed")]), Value::Null);
    assert_eq!(speech_to_end(&[created("r"), done("cancelled"), speech()]), Value::Null);
    // A second end changes neither time.
    let twice = [created("r"), speech(), done("cancelled"), speech(), done("cancelled")];
    assert_eq!(speech_to_end(&twice), json!(1000.0));
    assert_eq!(bundle(&twice)["responses"][0]["ended_ms"], 2000.0);
}

#[test]
fn what_lies_before_the_stream_start_has_no_time() {
    let bundle = bundle(&[
        created("r"),
        audio("r"),
        json!({"type": "response.done", "response": {"id": "r", "status": "completed"}}),
        json!({"type": "collector.stream_start"}),
        audio("r"),
    ]);
    let entry = &bundle["responses"][0];
    assert_eq!([&entry["created_ms"], &entry["ended_ms"]], [&Value::Null; 2]);
    assert_eq!((&entry["audio_packets"], &entry["first_audio_ms"]), (&json!(1), &json!(1000.0)));
}

/// Audio, text and an end, of which the server measured the first audio only.
fn one_of_each() -> [Value; 7] {
    let metrics = json!({"response_request_metrics": {"ttfp_ms": 7.5}});
    [
        created("r"),
        json!({"type": "response.output_text.delta", "response_id": "r", "delta": "words"}),
        audio("r"),
        audio("r"),
        json!({"type": "error", "error": {"code": "made-up"}}),
        json!({"type": "error", "error": {"code": "server_error"}}),
        json!({"type": "response.done", "response": {"id": "r", "status": "failed"}, "vllm_omni": metrics}),
    ]
}

#[test]
fn measures_are_the_bundle_s_figures_under_names_the_protocol_knows() {
    let measures = assembled(&one_of_each(), |_| ReceiveClock::ClientMonotonic).measures;
    let [response] = measures.responses[..] else { panic!("one response: {measures:?}") };
    assert_eq!(response.status, FinalStatus::Failed);
    assert_eq!(response.ttft_ms, Some((LatencySource::Client, 1000.0)));
    assert_eq!(response.ttfp_ms, Some((LatencySource::Server, 7.5)));
    assert_eq!((response.max_audio_gap_ms, response.underruns), (Some(1000.0), 1));
    let stream = StreamMeasures { ttft_ms: Some(1000.0), ttfp_ms: Some(2000.0), rtf: Some(24_000.0) };
    assert_eq!((measures.stream, measures.duration_ms), (Some(stream), Some(6000.0)));
    assert_eq!(measures.errors, [("other", 1), ("server_error", 1)].into());
}

#[test]
fn figures_of_times_of_two_clocks_are_null_and_all_else_stands() {
    // The first text's.
    let clock_of = |at| if at == 2 { ReceiveClock::KafkaTimestamp } else { ReceiveClock::ClientMonotonic };
    let Assembled { json, measures, .. } = assembled(&one_of_each(), clock_of);
    let bundle: Value = serde_json::from_slice(&json).expect("JSON");
    let told = |of: &Value| -> Vec<String> {
        let keys = of.as_object().expect("an object").iter().filter(|(_, value)| value.is_number());
        keys.map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(told(&bundle["responses"][0]), ["audio_duration_ms", "audio_packets"]);
    assert_eq!(told(&bundle["request_metrics"][0]), ["audio_duration_ms", "request_index", "ttfp_ms"]);
    assert_eq!(told(&bundle["session_metrics"]), ["audio_turn_count", "stream_audio_duration_ms"]);
    let session = &bundle["session"];
    assert_eq!((&session["clock"], &session["duration_ms"]), (&"mixed".into(), &Value::Null));
    let [response] = measures.responses[..] else { panic!("one response: {measures:?}") };
    assert_eq!((response.ttft_ms, response.ttfp_ms), (None, Some((LatencySource::Server, 7.5))));
    assert_eq!((response.rtf, response.max_audio_gap_ms, response.underruns), (None, None, 0));
    assert_eq!((measures.stream, measures.duration_ms), (Some(StreamMeasures::default()), None));
    assert_eq!(measures.clock_fault, Some(SessionClock::Mixed));
}

#[test]
fn an_event_whose_time_no_figure_is_made_of_mixes_nothing() {
    let one = assembled(&one_of_each(), |_| ReceiveClock::ClientMonotonic).json;
    let mut one: Value = serde_json::from_slice(&one).expect("JSON");
    // An error's; the end's is a difference of two clocks then.
    for (other, end) in [(6, Value::from(6000.0)), (7, Value::Null)] {
        let clock_of = |at| if at == other { ReceiveClock::KafkaTimestamp } else { ReceiveClock::ClientMonotonic };
        let Assembled { json, measures, .. } = assembled(&one_of_each(), clock_of);
        one["session"]["clock"] = "mixed".into();
        one["session"]["duration_ms"] = Value::Null;
        one["responses"][0]["ended_ms"] = end;
        assert_eq!(serde_json::from_slice::<Value>(&json).expect("JSON"), one);
        assert_eq!(measures.clock_fault, None);
    }
}
