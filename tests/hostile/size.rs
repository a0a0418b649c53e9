//! What a state counts as is what it takes at most: the ceiling is one of bytes, and not of what we call bytes.

use std::sync::Arc;
use std::time::Duration;

use duplex_collector::collector::{Limits, Settings};
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::task::PartitionTask;
use duplex_collector::time::Timestamp;

use crate::partition::{LATE, memory, record};

/// A state of one kind.
pub struct Shape {
    pub name: &'static str,
    /// The key and the value of its `n`th record.
    record: fn(u64) -> (String, String),
}

pub const SHAPES: [Shape; 6] = [
    Shape { name: "sessions", record: |n| (n.to_string(), r#"{"type":"session.created"}"#.into()) },
    Shape {
        name: "sessions with a name of each kind",
        record: |n| {
            let value = match n % 3 {
                0 => r#"{"type":"session.created","session":{"model":"a model of some length"}}"#,
                1 => r#"{"type":"error","error":{"code":"server_error"}}"#,
                _ => r#"{"type":"overlap.decision","action":"continue"}"#,
            };
            ((n / 3).to_string(), value.into())
        },
    },
    Shape {
        name: "sessions with a response with a stage",
        record: |n| {
            let stage = r#"{"0":{"final_output_type":"audio","vllm_itls_ms":[1,2,3,4,5]}}"#;
            let start = r#"{"type":"collector.stream_start"}"#.to_owned();
            let value =
                format!(r#"{{"type":"response.created","response_id":"r","vllm_omni":{{"stage_metrics":{stage}}}}}"#);
            ((n / 2).to_string(), if n.is_multiple_of(2) { start } else { value })
        },
    },
    Shape {
        name: "facts that wait",
        record: |n| {
            let stage = r#"{"0":{"vllm_itls_ms":[1]}}"#;
            let value =
                format!(r#"{{"type":"response.created","response_id":"r","vllm_omni":{{"stage_metrics":{stage}}}}}"#);
            ((n / 5).to_string(), value)
        },
    },
    Shape {
        name: "responses of few sessions",
        record: |n| {
            let value = format!(r#"{{"type":"response.created","response_id":"{n}"}}"#);
            (format!("s{}", n % 3), value)
        },
    },
    Shape { name: "markers", record: |n| (n.to_string(), r#"{"type":"session.closed"}"#.into()) },
];

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How much a state is let grow to.
const BYTES: usize = 64 << 20;

/// What a state of this shape counts as, and by how much the resident memory of the process has grown with it.
pub fn counted_and_taken(shape: &Shape) -> (usize, usize) {
    let limits = Limits { session_bytes: BYTES, state_bytes: 8 * BYTES, responses: usize::MAX, ..Limits::default() };
    // Nothing goes but what has ended.
    let settings =
        Settings { limits, idle_timeout: DAY, max_duration: DAY, closed_retention: DAY, ..Settings::default() };
    let source = TopicPartition { topic: "duplex.events".into(), partition: Partition(0) };
    let mut task = PartitionTask::new(source, Offset(0), Arc::new(settings));
    let before = memory("VmRSS");
    let mut n = 0;
    while task.state_size().bytes < BYTES {
        let (key, value) = (shape.record)(n);
        task.process(&record(Offset(n as i64), LATE, &key, value.as_bytes()), LATE);
        n += 1;
        if n.is_multiple_of(500) {
            // So that ends come, and what is committed goes.
            task.advance(task.reading().expect("a record was read"), Duration::from_secs(1), Timestamp(i64::MAX));
            drop(task.prepare_commit());
        }
    }
    drop(task.prepare_commit());
    (task.state_size().bytes, (memory("VmRSS") - before) as usize)
}
