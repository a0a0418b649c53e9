//! Whatever a session holds, each record of it fits its topic, and no row of an honest one is lost.

use std::fmt::Write as _;

use super::*;
use crate::bundle::largest_piece;
use crate::report::Parts;
use crate::task::largest_entry;

/// What a topic takes that nobody has configured, but for what a record has beside key and value.
const RECORD_BYTES: usize = 1_048_588 - 128;

fn played(limits: Limits, values: impl Iterator<Item = String>, commit_every: usize) -> Vec<CommitBatch> {
    let day = Duration::from_secs(30 * 3600);
    let settings = Settings { limits, max_duration: day, ..Settings::default() };
    let source = TopicPartition { topic: "events".into(), partition: Partition(0) };
    let mut task = PartitionTask::new(source, Offset(0), Arc::new(settings));
    let key = "k".repeat(crate::ids::MAX_SESSION_ID_BYTES);
    let mut batches = Vec::new();
    for (value, offset) in values.zip(0..) {
        let record = Record {
            partition: Partition(0),
            offset: Offset(offset),
            timestamp: Some(Timestamp(offset * 1000)),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: ["run_id", "model", "split", "sample_id"]
                .map(|name| Header { name, value: Some(LABEL.as_bytes()) })
                .to_vec(),
        };
        task.process(&record, Timestamp(i64::MAX / 2));
        if (offset as usize + 1).is_multiple_of(commit_every) {
            batches.extend(task.prepare_commit());
        }
    }
    task.end_of_input();
    batches.extend(task.prepare_commit());
    batches
}

/// Each of its bytes is six in JSON.
const LABEL: &str = match str::from_utf8(&[1; 1024]) {
    Ok(label) => label,
    Err(_) => panic!("ASCII"),
};

/// A response with as much as the limits let it have; so many interval values in each list.
fn largest_response(id: usize, stages: usize, values: usize) -> String {
    let (long, number) = (r"\u0001".repeat(1020), i128::MIN);
    let mut map = String::new();
    for stage in 0..stages {
        let comma = if stage > 0 { "," } else { "" };
        let name = if stage == 0 { "0".to_owned() } else { format!("{stage:04}{long}") };
        let list = format!("[{}1.2345678901234567e-300]", "1.2345678901234567e-300,".repeat(values.max(1) - 1));
        let lists = format!(r#""vllm_itls_ms":{list},"inter_output_latencies_ms":{list}"#);
        let scalars = [
            "num_tokens_out",
            "vllm_ttft_ms",
            "vllm_tpot_ms",
            "output_unit_count",
            "audio_generated_frames",
            "audio_duration_s",
            "serving_time_to_first_output_ms",
            "time_per_output_unit_ms",
            "stage_gen_time_ms",
        ];
        let scalars = scalars.map(|name| format!(r#""{name}":{number}"#)).join(",");
        let types = format!(r#""final_output_type":"{long}","output_unit_type":"text""#);
        write!(map, r#"{comma}"{name}":{{{types},{lists},{scalars}}}"#).expect("memory");
    }
    let origin = format!(r#"{{"ttft_ms":1,"ttfp_ms":2,"measurement_origin":{{"ttft":"{long}","ttfp":"{long}"}}}}"#);
    let metrics = format!(r#""vllm_omni":{{"stage_metrics":{{{map}}},"response_request_metrics":{origin}}}"#);
    format!(r#"{{"type":"response.created","response_id":"{id:04}{long}",{metrics}}}"#)
}

fn largest_session() -> Vec<String> {
    let long = r"\u0001".repeat(1015);
    let mut values = vec![r#"{"type":"response.speak"}"#.to_owned()];
    for n in 0..40 {
        values.push(format!(r#"{{"type":"error","error":{{"code":"{n}{long}"}}}}"#));
        values.push(format!(r#"{{"type":"overlap.decision","action":"{n}{long}"}}"#));
    }
    values.push(largest_response(0, 64, 512));
    values.push(largest_response(1, 64, 100));
    values.push(largest_response(2, 2, 16_384));
    values.extend((3..9).map(|id| largest_response(id, 64, 1)));
    values.push(format!(r#"{{"type":"session.closed","reason":"{long}"}}"#));
    values
}

#[test]
fn every_record_of_the_largest_session_fits_a_topic_with_kafkas_defaults() {
    let limits = Limits::default();
    let (entry, piece) = (largest_entry(&limits), largest_piece(&limits));
    assert!(entry <= RECORD_BYTES && piece <= RECORD_BYTES, "{entry}, {piece}");
    let session = largest_session();
    // With the facts held until the end, and settled at once.
    let known_start = vec![r#"{"type":"collector.stream_start"}"#.to_owned()];
    let mut largest = 0;
    for (start, commit_every) in [(vec![], 1), (vec![], 1000), (known_start, 7)] {
        let limits = limits.clone();
        let values = start.into_iter().chain(session.iter().cloned());
        for batch in played(limits, values, commit_every) {
            for entry in batch.changelog {
                largest = largest.max(entry.key.len() + entry.value.map_or(0, |value| value.len()));
            }
            for bundle in batch.bundles {
                for record in bundle.records(RECORD_BYTES) {
                    assert!(record.len() <= RECORD_BYTES, "{}", record.len());
                    serde_json::from_slice::<Value>(&record).expect("JSON");
                }
                // By the largest piece alone: nothing is larger than that.
                for record in bundle.records(1) {
                    assert!(record.len() <= piece + 128, "{} of {piece}", record.len());
                }
            }
        }
    }
    assert!(largest <= entry, "{largest} of {entry}");
    // Not by being small.
    assert!(largest > entry / 2, "{largest} of {entry}");
}

#[test]
fn the_longest_honest_session_comes_whole_in_parts() {
    const RESPONSES: usize = 10_000;
    let itls = vec!["7.25"; 20].join(",");
    let values = (0..RESPONSES).flat_map(|n| {
        let stages = format!(
            r#"{{"0":{{"final_output_type":"text","num_tokens_out":21,"vllm_ttft_ms":40.5,"vllm_itls_ms":[{itls}]}},"1":{{"final_output_type":"audio","output_unit_count":3}}}}"#
        );
        [
            format!(r#"{{"type":"response.created","response_id":"resp-{n}"}}"#),
            format!(r#"{{"type":"response.output_text.delta","response_id":"resp-{n}","delta":"x"}}"#),
            format!(r#"{{"type":"response.output_audio.delta","response_id":"resp-{n}","delta":"AAAAAAAA"}}"#),
            format!(
                r#"{{"type":"response.done","response":{{"id":"resp-{n}","status":"completed"}},"vllm_omni":{{"stage_metrics":{stages}}}}}"#
            ),
        ]
    });
    let start = std::iter::once(r#"{"type":"collector.stream_start"}"#.to_owned());
    let batches = played(Limits::default(), start.chain(values), 500);
    let bundle = batches.iter().flat_map(|batch| &batch.bundles).next().expect("a bundle");
    let (mut parts, mut whole, mut count) = (Parts::default(), None, 0);
    for record in bundle.records(RECORD_BYTES) {
        assert!(record.len() <= RECORD_BYTES && whole.is_none());
        whole = parts.take(b"k", &record, Timestamp(0)).map(|(whole, _)| whole.into_owned());
        count += 1;
    }
    assert!(count > 5, "{count}");
    assert!(whole.expect("complete") == bundle.json, "what is put together is what was cut, to the byte");
    let bundle: Value = serde_json::from_slice(&bundle.json).expect("JSON");
    assert_eq!(bundle["session"]["truncated"], false);
    for list in ["request_metrics", "responses"] {
        assert_eq!(bundle[list].as_array().expect("a list").len(), RESPONSES);
    }
}
