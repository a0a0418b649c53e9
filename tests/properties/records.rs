//! Whole records as anybody may write them, key, headers, timestamp and value: nothing panics, each counts once, and what
//! is written of them can be read.

use std::sync::Arc;

use duplex_collector::collector::{Limits, Settings};
use duplex_collector::ids::{Offset, Partition};
use duplex_collector::report::Parts;
use duplex_collector::task::{ChangelogState, Counts, Header, PartitionTask, Record};
use duplex_collector::time::Timestamp;
use proptest::prelude::*;

use crate::source;

#[derive(Clone, Debug)]
struct Given {
    key: Option<Vec<u8>>,
    timestamp: Option<i64>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    value: Option<Vec<u8>>,
}

fn key() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        6 => prop::sample::select(vec!["", "a", "b"]).prop_map(|key| Some(key.as_bytes().to_vec())),
        1 => Just(None),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(Some),
    ]
}

fn timestamp() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        4 => (0..1_000_000_i64).prop_map(|ms| Some(1_700_000_000_000 + ms)),
        1 => Just(None),
        1 => prop::sample::select(vec![i64::MIN, -1, 0, i64::MAX]).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
    ]
}

fn header() -> impl Strategy<Value = (String, Option<Vec<u8>>)> {
    let known = prop::sample::select(vec!["received_at_s", "run_id", "model", "split", "sample_id", ""]);
    let name = prop_oneof![4 => known.prop_map(str::to_owned), 1 => any::<String>()];
    let text = prop::sample::select(vec!["", "12.5", "-0", "1e400", "NaN", "-1e308", "1e308", " 7 ", "\u{e9}"]);
    let value = prop_oneof![
        3 => text.prop_map(|text| Some(text.as_bytes().to_vec())),
        1 => prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
    ];
    (name, value)
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    let kind = prop::sample::select(vec![
        "session.created",
        "session.closed",
        "session.resync_required",
        "collector.stream_start",
        "response.created",
        "response.output_text.delta",
        "response.output_audio.delta",
        "response.done",
        "response.cancel",
        "error",
        "overlap.decision",
        "made.up",
    ]);
    let number =
        prop::sample::select(vec!["0", "-1", "7.25", "1e308", "-1e308", "1e-320", "1e400", "NaN", "true", "null"]);
    let id = prop::sample::select(vec!["r", "q", "", r"\u0000"]);
    let event = (kind, number.clone(), number, id).prop_map(|(kind, a, b, id)| {
        let stage = format!(r#"{{"vllm_ttft_ms":{a},"num_tokens_out":{b},"vllm_itls_ms":[{a},{b}]}}"#);
        let server = format!(r#""response_request_metrics":{{"ttft_ms":{b}}}"#);
        format!(
            r#"{{"type":"{kind}","response_id":"{id}","delta":"AAAA","server_event_seq":{a},"sample_rate_hz":{b},
                "_client_received_at_s":{a},"metadata":{{"audio_duration_ms":{b},"stage_metrics":{{"0":{stage}}}}},{server}}}"#
        )
        .into_bytes()
    });
    prop_oneof![
        8 => event.prop_map(Some),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Some),
        1 => Just(None),
    ]
}

fn given() -> impl Strategy<Value = Given> {
    (key(), timestamp(), prop::collection::vec(header(), 0..4), value())
        .prop_map(|(key, timestamp, headers, value)| Given { key, timestamp, headers, value })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_record_of_whatever_bytes_counts_once_and_stops_nothing(
        given in prop::collection::vec(given(), 1..60),
        commit_every in 1usize..20,
        wall in prop::sample::select(vec![0, 1_700_000_500_000, i64::MAX]),
    ) {
        let limits = Limits { text_bytes: 64, ..Limits::default() };
        let settings = Arc::new(Settings { limits, ..Settings::default() });
        let mut task = PartitionTask::new(source(), Offset(0), Arc::clone(&settings));
        let (mut state, mut batches) = (ChangelogState::default(), Vec::new());
        for (record, offset) in given.iter().zip(0_i64..) {
            let headers = record.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() });
            task.process(
                &Record {
                    partition: Partition(0),
                    offset: Offset(offset),
                    timestamp: record.timestamp.map(Timestamp),
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    headers: headers.collect(),
                },
                Timestamp(wall),
            );
            if (offset as usize + 1).is_multiple_of(commit_every) {
                batches.extend(task.prepare_commit());
            }
        }
        task.end_of_input();
        batches.extend(task.prepare_commit());
        let (mut counts, mut letters, mut bundles) = (Counts::default(), 0, 0);
        for batch in &batches {
            counts.merge(&batch.counts);
            letters += batch.dead_letters.len() as u64;
            for entry in &batch.changelog {
                state.apply(&entry.key, entry.value.as_deref()).expect("the task's own changelog");
            }
            for bundle in &batch.bundles {
                bundles += 1;
                let (mut parts, mut whole) = (Parts::default(), None);
                for record in bundle.records(700) {
                    serde_json::from_slice::<serde_json::Value>(&record).expect("a part is JSON");
                    whole = parts.take(b"k", &record).map(|whole| whole.into_owned());
                }
                prop_assert_eq!(whole.as_ref(), Some(&bundle.json));
            }
        }
        let events: u64 = counts.events.values().sum();
        prop_assert_eq!(counts.records, given.len() as u64);
        prop_assert_eq!(events + counts.tombstones + letters, counts.records);
        prop_assert_eq!(counts.dead_letters.values().sum::<u64>(), letters);
        prop_assert_eq!(bundles, counts.sessions_opened);
        PartitionTask::restore(source(), task.next_offset(), state, settings).expect("the task's own changelog");
    }
}
