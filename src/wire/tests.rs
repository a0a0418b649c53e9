//! What is accepted, what is not, and which of several fields counts (contract.md sections 1.1, 1.2 and 3).

use super::*;

fn decode<T>(json: &str, look: impl FnOnce(&Event<'_>) -> T) -> T {
    look(&Decoder::new(1 << 20).decode(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e}")))
}

fn reason(value: &[u8]) -> Option<DeadLetterReason> {
    Decoder::new(1000).decode(value).err().map(|e| e.reason)
}

#[test]
fn what_encoders_write_is_accepted() {
    for json in [
        "{}",
        " {\"a\":NaN,\"b\":Infinity,\"c\":-Infinity,\"d\":1e400,\"e\":-1e400} ",
        r#"{"a":"\ud83d","\ude00":1}"#,
        r#"{"a":99999999999999999999999999999999999999999999}"#,
        r#"{"type":5,"response":[],"metadata":"\ud83d","session":NaN,"error":1e400}"#,
    ] {
        assert_eq!(reason(json.as_bytes()), None, "{json}");
    }
}

#[test]
fn what_is_no_json_is_a_dead_letter() {
    for json in [
        "",
        "{",
        "{'a':1}",
        "{\"a\":1,}",
        "{} x",
        "\u{feff}{}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":\"\t\"}",
        "{\"a\":-NaN}",
        "{\"a\":\"\\x\"}",
        "{\"a\":nul}",
        "{\"a\"}",
        "{a:1}",
        "// {}",
    ] {
        assert_eq!(reason(json.as_bytes()), Some(DeadLetterReason::InvalidJson), "{json}");
    }
    assert_eq!(reason(b"{\"a\":\"\xff\"}"), Some(DeadLetterReason::InvalidUtf8));
    assert_eq!(reason(&[b' '; 1001]), Some(DeadLetterReason::TooLarge));
}

#[test]
fn json_that_is_no_object_is_a_dead_letter_of_its_own() {
    for json in ["null", "[]", "5", "\"x\"", "true", "NaN", "\"\\ud83d\""] {
        assert_eq!(reason(json.as_bytes()), Some(DeadLetterReason::NotAnObject), "{json}");
    }
}

#[test]
fn nesting_up_to_128_is_read() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert_eq!(reason(nested(128).as_bytes()), None);
    assert_eq!(reason(nested(129).as_bytes()), Some(DeadLetterReason::TooDeep));
    let brackets_in_text = format!("{{\"a\":\"{}\\\"{}\"}}", "[".repeat(200), "{".repeat(200));
    assert_eq!(reason(brackets_in_text.as_bytes()), None);
}

#[test]
fn a_detail_never_shows_content() {
    let e = Decoder::new(1000).decode(br#"{"transcript":"secret words" x"#).expect_err("no JSON");
    assert!(!e.detail.contains("secret"), "{}", e.detail);
}

#[test]
fn the_last_of_equal_keys_rules_whole() {
    let json =
        r#"{"type":"error","type":"response.done","metadata":{"stage_metrics":{}},"metadata":{"audio_duration_ms":5}}"#;
    decode(json, |event| {
        assert_eq!(event.kind, Kind::ResponseDone);
        assert_eq!(event.stage_metrics, None);
        assert_eq!(event.audio_duration_ms, Scalar::Int(5));
    });
    decode(r#"{"response_id":"a","response_id":7,"response":{"id":"b"}}"#, |event| {
        assert_eq!(event.response_id.map(|id| id.decode().into_owned()), Some("b".into()));
    });
}

#[test]
fn keys_may_be_escaped() {
    decode(r#"{"\u0074ype":"error","err\u006fr":{"c\u006fde":"x"}}"#, |event| {
        assert_eq!(event.kind, Kind::Error);
        assert_eq!(event.error_code.map(|code| code.decode().into_owned()), Some("x".into()));
    });
}

#[test]
fn a_lone_surrogate_in_an_id_or_a_label_is_the_replacement_character() {
    for (surrogate, mended) in [
        (r"\ud83d", "\u{fffd}"),
        (r"\ude00", "\u{fffd}"),
        (r"\ud83d\u0041", "\u{fffd}A"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
    ] {
        let json = format!(
            r#"{{"session_id":"a{surrogate}","response_id":"{surrogate}b","session":{{"model":"{surrogate}"}},
                "metadata":{{"stage_metrics":{{"{surrogate}":{{"final_output_type":"{surrogate}"}}}}}}}}"#
        );
        decode(&json, |event| {
            let text = |text: Option<Text<'_>>| text.expect("it is there").decode().into_owned();
            let ids = [event.session_id, event.response_id, event.model].map(text);
            assert_eq!(ids, [format!("a{mended}"), format!("{mended}b"), mended.to_owned()], "{json}");
            let limits = StageLimits { stages: 1, interval_values: 1, text_bytes: 64 };
            let (id, stage) = StageMetrics::read(event.stage_metrics.expect("found"), limits).stages.remove(0);
            assert_eq!((id.as_str(), stage.final_output_type.as_deref()), (mended, Some(mended)), "{json}");
        });
    }
}

#[test]
fn an_empty_response_id_shadows_the_responses_own() {
    decode(r#"{"response_id":"","response":{"id":"b"}}"#, |event| {
        assert!(event.response_id.is_some_and(|id| id.is_empty()));
    });
}

#[test]
fn the_audio_payload_falls_back_only_from_a_falsy_delta() {
    for delta in ["null", "\"\"", "0", "false", "[]", "{}", "-0.0"] {
        decode(&format!(r#"{{"delta":{delta},"audio":"AAAA"}}"#), |event| {
            assert_eq!(event.audio_payload(), Some(&b"AAAA"[..]), "{delta}");
        });
    }
    for delta in ["true", "5", "[1]", r#"{"a":1}"#, "NaN"] {
        decode(&format!(r#"{{"delta":{delta},"audio":"AAAA"}}"#), |event| {
            assert_eq!(event.audio_payload(), None, "{delta}");
        });
    }
    decode(r#"{"delta":"BBBB","audio":"AAAA"}"#, |event| assert_eq!(event.audio_payload(), Some(&b"BBBB"[..])));
    decode(r#"{"audio":""}"#, |event| assert_eq!(event.audio_payload(), Some(&b""[..])));
    decode("{}", |event| assert_eq!(event.audio_payload(), None));
}

#[test]
fn numbers_of_another_type_are_absent() {
    decode(r#"{"server_event_seq":true,"sample_rate_hz":24000.0,"_client_received_at_s":"1"}"#, |event| {
        assert_eq!((event.seq, event.sample_rate_hz, event.received_at_s), (None, None, None));
    });
    decode(r#"{"server_event_seq":-7,"sample_rate_hz":true,"_client_received_at_s":NaN}"#, |event| {
        assert_eq!((event.seq, event.sample_rate_hz), (Some(-7), Some(1.0)));
        assert!(event.received_at_s.is_some_and(f64::is_nan));
    });
    let huge = format!(r#"{{"server_event_seq":{0},"_client_received_at_s":{0}}}"#, "9".repeat(400));
    decode(&huge, |event| {
        assert_eq!((event.seq, event.received_at_s), (Some(i128::MAX), Some(f64::INFINITY)));
    });
}

#[test]
fn metrics_are_taken_from_the_first_place_that_has_them() {
    // Each place in its order; removing the first leaves the next.
    let places = [
        r#""vllm_omni":{"stage_metrics":{"1":{}}}"#,
        r#""metadata":{"vllm_omni":{"stage_metrics":{"3":{}}},"stage_metrics":{"2":{}}}"#,
        r#""response":{"metadata":{"vllm_omni":{"stage_metrics":{"5":{}}},"stage_metrics":{"4":{}}}}"#,
    ];
    for (from, expected) in [(0, r#"{"1":{}}"#), (1, r#"{"2":{}}"#), (2, r#"{"4":{}}"#)] {
        decode(&format!("{{{}}}", places[from..].join(",")), |event| {
            assert_eq!(event.stage_metrics, Some(expected.as_bytes()));
        });
    }
    decode(r#"{"metadata":{"duplex_event":{"response_request_metrics":{"a":1},"stage_metrics":{}}}}"#, |event| {
        assert_eq!(event.request_metrics, Some(&br#"{"a":1}"#[..]));
        assert_eq!(event.stage_metrics, None);
    });
    decode(r#"{"vllm_omni":{"stage_metrics":5},"metadata":{"stage_metrics":{}}}"#, |event| {
        assert_eq!(event.stage_metrics, Some(&b"{}"[..]));
    });
}

#[test]
fn a_type_that_is_missing_or_no_string_is_an_unknown_event() {
    for json in ["{}", r#"{"type":5}"#, r#"{"type":"duplex.raw.future"}"#] {
        decode(json, |event| assert_eq!(event.kind, Kind::Other(EventClass::Other), "{json}"));
    }
}
