//! The decoder reads an event in one pass and skips most of it. What it finds is what a full parse finds.

use duplex_collector::wire::{Decoder, Event, Kind, RequestMetrics, Scalar, StageLimits, StageMetrics, Text};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};

/// A JSON text, with keys that may come twice: an object in the making.
#[derive(Clone, Debug)]
enum Json {
    Leaf(Value),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

const KEYS: [&str; 24] = [
    "type",
    "session_id",
    "session",
    "id",
    "model",
    "response_id",
    "response",
    "status",
    "server_event_seq",
    "_client_received_at_s",
    "delta",
    "audio",
    "sample_rate_hz",
    "metadata",
    "audio_duration_ms",
    "vllm_omni",
    "stage_metrics",
    "duplex_event",
    "response_request_metrics",
    "reason",
    "action",
    "code",
    "error",
    "else",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => select(vec!["", "r1", "AAAA", "completed", "\"\\/\u{1f600}\n", "response.output_audio.delta", "17"]).prop_map(Value::from),
        1 => any::<String>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_filter("JSON has no other", |value| value.is_finite()).prop_map(Value::from),
        1 => select(vec![json!(null), json!(0), json!(-1), json!(24000), json!(1.0), json!(u64::MAX)]),
    ]
}

fn any_json() -> impl Strategy<Value = Json> {
    leaf().prop_map(Json::Leaf).prop_recursive(4, 48, 8, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Json::List),
            4 => members(inner).prop_map(Json::Object),
        ]
    })
}

fn members(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Vec<(&'static str, Json)>> {
    prop::collection::vec((select(KEYS.to_vec()), value), 0..8)
}

/// Metrics in some of the places where they may stand, each time others; no object where there are none.
fn metrics_in_places() -> impl Strategy<Value = Vec<(&'static str, Json)>> {
    any::<u32>().prop_map(|places| {
        let mut place = 0;
        let mut metrics = |names: &[&'static str]| {
            let mut members = Vec::new();
            for name in names {
                place += 1;
                if places >> place & 1 == 1 {
                    members.push((*name, Json::Object(vec![("id", Json::Leaf(place.into()))])));
                }
            }
            members
        };
        let both = ["stage_metrics", "response_request_metrics"];
        let some = |members: Vec<_>| (!members.is_empty()).then_some(Json::Object(members));
        let mut metadata = || {
            let mut members = metrics(&both);
            members.extend(some(metrics(&both)).map(|omni| ("vllm_omni", omni)));
            members.extend(some(metrics(&both)).map(|event| ("duplex_event", event)));
            some(members)
        };
        let (own, of_response) = (metadata(), metadata());
        let mut event = metrics(&both[1..]);
        event.extend(some(metrics(&both)).map(|omni| ("vllm_omni", omni)));
        event.extend(own.map(|own| ("metadata", own)));
        event.extend(of_response.map(|metadata| ("response", Json::Object(vec![("metadata", metadata)]))));
        event
    })
}

/// How the text is written: blanks, and which characters of a string are escaped.
struct Writer {
    text: String,
    style: u32,
}

impl Writer {
    /// The next of many small decisions.
    fn decides(&mut self, one_in: u32) -> bool {
        self.style = self.style.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.style >> 16).is_multiple_of(one_in)
    }

    fn blank(&mut self) {
        if self.decides(4) {
            self.text.push_str(" \n");
        }
    }

    fn string(&mut self, value: &str) {
        self.text.push('"');
        for unit in value.chars() {
            let mut units = [0; 2];
            if unit < ' ' || matches!(unit, '"' | '\\') || self.decides(5) {
                for unit in unit.encode_utf16(&mut units) {
                    self.text.push_str(&format!("\\u{unit:04X}"));
                }
            } else {
                self.text.push(unit);
            }
        }
        self.text.push('"');
    }

    fn json(&mut self, json: &Json) {
        self.blank();
        match json {
            Json::Leaf(Value::String(value)) => self.string(value),
            Json::Leaf(value) => self.text.push_str(&value.to_string()),
            Json::List(values) => {
                self.text.push('[');
                for (at, value) in values.iter().enumerate() {
                    self.text.push_str(if at > 0 { "," } else { "" });
                    self.json(value);
                }
                self.text.push(']');
            }
            Json::Object(members) => {
                self.text.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    self.text.push_str(if at > 0 { "," } else { "" });
                    self.blank();
                    self.string(key);
                    self.text.push(':');
                    self.json(value);
                }
                self.text.push('}');
            }
        }
        self.blank();
    }
}

/// What contract.md sections 1.2 and 3 find in an event that was parsed whole.
#[derive(PartialEq, Debug)]
struct Facts {
    kind: Kind,
    session_id: Option<String>,
    model: Option<String>,
    response_id: Option<String>,
    seq: Option<i128>,
    received_at_s: Option<f64>,
    has_text: bool,
    audio_payload: Option<String>,
    sample_rate_hz: Option<f64>,
    row_duration_ms: Option<f64>,
    stream_duration_ms: Option<f64>,
    stage_metrics: Option<Value>,
    request_metrics: Option<Value>,
    status: Option<String>,
    reason: Option<String>,
    action: Option<String>,
    error_code: Option<String>,
}

fn by_full_parse(event: &Map<String, Value>) -> Facts {
    let top = Value::Object(event.clone());
    let string = |pointer: &str| top.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = |pointer: &str| string(pointer).filter(|name| !name.is_empty());
    let object = |pointer: String| top.pointer(&pointer).filter(|value| value.is_object()).cloned();
    let first = |places: &[&str], name: &str| places.iter().find_map(|place| object(format!("{place}/{name}")));
    let integer = |name: &str| top.get(name).and_then(|value| value.as_number()?.as_i128());
    let is_truthy = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_f64() != Some(0.0),
        Value::String(value) => !value.is_empty(),
        Value::Array(value) => !value.is_empty(),
        Value::Object(value) => !value.is_empty(),
    };
    let audio = top.get("delta").filter(|delta| is_truthy(delta)).or(top.get("audio"));
    let duration = top.pointer("/metadata/audio_duration_ms");
    let number = duration.and_then(Value::as_f64);
    let places =
        ["/vllm_omni", "/metadata", "/metadata/vllm_omni", "/response/metadata", "/response/metadata/vllm_omni"];
    let more_places = [
        "",
        "/vllm_omni",
        "/metadata",
        "/metadata/vllm_omni",
        "/metadata/duplex_event",
        "/response/metadata",
        "/response/metadata/vllm_omni",
        "/response/metadata/duplex_event",
    ];
    Facts {
        kind: string("/type").map_or(Kind::of(""), |kind| Kind::of(&kind)),
        session_id: name("/session_id").or(name("/session/id")),
        model: name("/session/model"),
        response_id: string("/response_id").or(string("/response/id")),
        seq: integer("server_event_seq"),
        received_at_s: top.get("_client_received_at_s").and_then(Value::as_f64),
        has_text: string("/delta").is_some_and(|text| !text.is_empty()),
        audio_payload: audio.and_then(Value::as_str).map(str::to_owned),
        sample_rate_hz: match top.get("sample_rate_hz") {
            Some(Value::Bool(true)) => Some(1.0),
            _ => integer("sample_rate_hz").filter(|rate| *rate > 0).map(|rate| rate as f64),
        },
        row_duration_ms: duration.and_then(Value::as_bool).map(|value| f64::from(u8::from(value))).or(number),
        stream_duration_ms: number.filter(|ms| *ms >= 0.0),
        stage_metrics: first(&places, "stage_metrics"),
        request_metrics: first(&more_places, "response_request_metrics"),
        status: name("/response/status"),
        reason: name("/reason"),
        action: name("/action"),
        error_code: name("/error/code").or(name("/error/type")).or(name("/code")),
    }
}

fn by_decoder(event: &Event<'_>) -> Facts {
    let text = |text: Option<Text<'_>>| text.map(|text| text.decode().into_owned());
    let json = |json: Option<&[u8]>| json.map(|json| serde_json::from_slice(json).expect("JSON"));
    let duration: Scalar = event.audio_duration_ms;
    Facts {
        kind: event.kind,
        session_id: text(event.session_id),
        model: text(event.model),
        response_id: text(event.response_id),
        seq: event.seq,
        received_at_s: event.received_at_s,
        has_text: event.has_text(),
        // It stands as in the record: escapes are for whoever measures it.
        audio_payload: event.audio_payload().map(|raw| {
            let quoted = [b"\"", raw, b"\""].concat();
            serde_json::from_slice(&quoted).expect("a string")
        }),
        sample_rate_hz: event.sample_rate_hz,
        row_duration_ms: duration.as_number_or_bool(),
        stream_duration_ms: duration.as_measure(),
        stage_metrics: json(event.stage_metrics),
        request_metrics: json(event.request_metrics),
        status: text(event.status),
        reason: text(event.reason),
        action: text(event.action),
        error_code: text(event.error_code),
    }
}

/// Writes an event in one of many ways and compares.
fn compare(members: Vec<(&'static str, Json)>, style: u32) -> Result<(), TestCaseError> {
    let mut writer = Writer { text: String::new(), style };
    writer.json(&Json::Object(members));
    let parsed: Map<String, Value> = serde_json::from_str(&writer.text).expect("it is JSON");
    let mut decoder = Decoder::new(1 << 20);
    let event = decoder.decode(writer.text.as_bytes()).expect("an event");
    prop_assert_eq!(by_decoder(&event), by_full_parse(&parsed), "{}", writer.text);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn the_decoder_finds_what_a_full_parse_finds(
        members in members(any_json()),
        kind in select(vec!["response.output_audio.delta", "response.output_text.delta", "response.created", "x"]),
        style: u32,
    ) {
        let mut members = members;
        members.insert(style as usize % (members.len() + 1), ("type", Json::Leaf(kind.into())));
        compare(members, style)?;
    }

    #[test]
    fn the_decoder_looks_for_metrics_where_a_full_parse_does(members in metrics_in_places(), style: u32) {
        compare(members, style)?;
    }
}

/// Events that together have every key that is read, in every place; nothing hides what another says.
fn events_with_every_key() -> Vec<String> {
    let around = |places: &[&str], inner: &str| {
        places.iter().rev().fold(inner.to_owned(), |inner, place| format!(r#"{{"{place}":{inner}}}"#))
    };
    let omni = "vllm_omni";
    let mut events: Vec<String> = [
        r#"{"type":"error"}"#,
        r#"{"session_id":"s"}"#,
        r#"{"session":{"id":"s"}}"#,
        r#"{"session":{"model":"m"}}"#,
        r#"{"response_id":"r"}"#,
        r#"{"response":{"id":"r"}}"#,
        r#"{"response":{"status":"completed"}}"#,
        r#"{"server_event_seq":7}"#,
        r#"{"_client_received_at_s":1.5}"#,
        r#"{"delta":"x"}"#,
        r#"{"audio":"AAAA"}"#,
        r#"{"sample_rate_hz":16000}"#,
        r#"{"metadata":{"audio_duration_ms":40}}"#,
        r#"{"reason":"why"}"#,
        r#"{"action":"listen"}"#,
        r#"{"code":"c"}"#,
        r#"{"error":{"code":"c"}}"#,
        r#"{"error":{"type":"c"}}"#,
    ]
    .map(str::to_owned)
    .into();
    for places in [&[omni][..], &["metadata"], &["metadata", omni], &["response", "metadata"]] {
        events.push(around(&[places, &["stage_metrics"]].concat(), r#"{"0":{"num_tokens_out":3}}"#));
    }
    events.push(around(&["response", "metadata", omni, "stage_metrics"], r#"{"0":{"num_tokens_out":3}}"#));
    let origin = r#"{"measurement_origin":{"ttft":"a"}}"#;
    for inner in [r#"{"ttft_ms":33.25}"#, r#"{"ttfp_ms":1}"#, origin, r#"{"measurement_origin":{"ttfp":"b"}}"#] {
        for places in [&[][..], &[omni], &["metadata", "duplex_event"], &["response", "metadata", "duplex_event"]] {
            events.push(around(&[places, &["response_request_metrics"]].concat(), inner));
        }
    }
    for (value, keys) in [
        (r#""text""#, &["final_output_type", "output_unit_type"][..]),
        ("[6]", &["vllm_itls_ms", "inter_output_latencies_ms"]),
        ("7", &["num_tokens_out", "vllm_ttft_ms", "vllm_tpot_ms", "output_unit_count", "audio_generated_frames"]),
        ("8", &["audio_duration_s", "serving_time_to_first_output_ms", "time_per_output_unit_ms", "stage_gen_time_ms"]),
    ] {
        events.extend(keys.iter().map(|key| around(&[omni, "stage_metrics", "0", key], value)));
    }
    events
}

/// All that is read of an event, what stands inside its metrics included.
fn all_of(json: &str) -> (Facts, Option<StageMetrics>, Option<RequestMetrics>) {
    let limits = StageLimits { stages: 8, interval_values: 8, text_bytes: 64 };
    let mut decoder = Decoder::new(1 << 20);
    let event = decoder.decode(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e}"));
    let facts = Facts { stage_metrics: None, request_metrics: None, ..by_decoder(&event) };
    let stages = event.stage_metrics.map(|json| StageMetrics::read(json, limits));
    (facts, stages, event.request_metrics.map(|json| RequestMetrics::read(json, 64)))
}

#[test]
fn a_key_may_be_escaped_at_any_of_its_characters_in_every_object() {
    for plain in events_with_every_key() {
        for (end, _) in plain.match_indices("\":") {
            let start = plain[..end].rfind('"').expect("a key has two quotes") + 1;
            for at in start..end {
                let escape = format!("\\u{:04x}", plain.as_bytes()[at]);
                let escaped = [&plain[..at], &escape, &plain[at + 1..]].concat();
                assert_eq!(all_of(&escaped), all_of(&plain), "{escaped}");
            }
            let renamed = [&plain[..start], "no_such_key", &plain[end..]].concat();
            assert_ne!(all_of(&renamed), all_of(&plain), "{renamed}: its key shows, or nothing was compared");
        }
    }
}
