//! What one more event costs a session that has gone through few or many responses, and what its restore costs.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use duplex_collector::collector::Settings;
use duplex_collector::ids::{Offset, Partition};
use duplex_collector::task::{ChangelogState, CommitBatch, PartitionTask, Record};
use duplex_collector::time::Timestamp;

use super::made;

/// Events measured one by one, each with its commit.
const EVENTS: usize = 2_000;
const START: i64 = 1_790_000_000_000;

pub struct LongSessions(comfy_table::Table);

impl fmt::Display for LongSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Measures sessions of 1, 1,000 and 10,000 finished responses.
pub fn measure() -> LongSessions {
    let mut table = comfy_table::Table::new();
    let header = ["one session of", "ns/event and commit", "changelog bytes/commit", "restore ms", "changelog MB"];
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for responses in [1, 1_000, 9_999] {
        let mut session = Session::new();
        for n in 0..responses {
            for json in response(n) {
                session.event(&json);
            }
        }
        session.commit();
        session.event(&created("next"));
        session.commit();
        let began = Instant::now();
        let mut bytes = 0;
        for _ in 0..EVENTS {
            session.event(&audio("next"));
            bytes += size(&session.task.prepare_commit().expect("a record was read"));
        }
        let one = began.elapsed() / EVENTS as u32;
        let state = std::mem::take(&mut session.state);
        let began = Instant::now();
        let next_offset = session.task.next_offset();
        let task = PartitionTask::restore(made::source(0), next_offset, state, Arc::new(Settings::default()));
        let restore = began.elapsed();
        assert_eq!(task.expect("our own changelog").open_sessions(), 1);
        let (ms, mb) = (restore.as_secs_f64() * 1e3, session.bytes as f64 / 1e6);
        let cells = [format!("{responses} responses"), one.as_nanos().to_string(), (bytes / EVENTS).to_string()];
        table.add_row(cells.into_iter().chain([format!("{ms:.2}"), format!("{mb:.2}")]));
    }
    LongSessions(table)
}

struct Session {
    task: PartitionTask,
    state: ChangelogState,
    offset: i64,
    /// Written to the changelog before the measurement.
    bytes: usize,
}

impl Session {
    fn new() -> Self {
        let task = PartitionTask::new(made::source(0), Offset(0), Arc::new(Settings::default()));
        let mut session = Self { task, state: ChangelogState::default(), offset: 0, bytes: 0 };
        session.event(r#"{"type":"session.created"}"#);
        session.event(r#"{"type":"collector.stream_start"}"#);
        session
    }

    fn event(&mut self, json: &str) {
        let timestamp = Timestamp(START) + Duration::from_millis(u64::try_from(self.offset).expect("not negative"));
        let record = Record {
            partition: Partition(0),
            offset: Offset(self.offset),
            timestamp: Some(timestamp),
            key: Some(b"session"),
            value: Some(json.as_bytes()),
            headers: Vec::new(),
        };
        self.task.process(&record, timestamp);
        self.offset += 1;
    }

    fn commit(&mut self) {
        let batch = self.task.prepare_commit().expect("records were read");
        self.bytes += size(&batch);
        for entry in &batch.changelog {
            self.state.apply(&entry.key, entry.value.as_deref()).expect("our own changelog");
        }
    }
}

fn size(batch: &CommitBatch) -> usize {
    batch.changelog.iter().map(|entry| entry.key.len() + entry.value.as_ref().map_or(0, Vec::len)).sum()
}

fn created(id: &str) -> String {
    format!(r#"{{"type":"response.created","response_id":"{id}"}}"#)
}

fn audio(id: &str) -> String {
    format!(
        r#"{{"type":"response.output_audio.delta","response_id":"{id}","delta":"AAAA","metadata":{{"audio_duration_ms":200}}}}"#
    )
}

fn response(n: usize) -> [String; 4] {
    let id = format!("response-{n:05}");
    let text = format!(r#"{{"type":"response.output_text.delta","response_id":"{id}","delta":"hello"}}"#);
    let done = format!(r#"{{"type":"response.done","response":{{"id":"{id}","status":"completed"}}}}"#);
    [created(&id), text, audio(&id), done]
}
