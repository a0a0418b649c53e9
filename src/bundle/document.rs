//! The bundle as it is written (contract.md section 5).

use std::collections::BTreeMap;

use serde::Serialize;

use super::measures::SessionMeasures;
use super::response::ResponseEntry;
use super::row::RequestRow;
use super::session_metrics::SessionMetrics;
use crate::collector::{EndReason, FinalStatus, Head, ReceiveClock, SessionCollector, StreamStartSource};
use crate::ids::{Offset, Partition, SessionId, TopicPartition};

/// Version of the bundle's shape.
pub const SCHEMA_VERSION: u32 = 1;

/// A bundle, ready to be written.
#[derive(Clone, PartialEq, Debug)]
pub struct Assembled {
    /// One JSON object, no newline. The same session gives the same bytes, whenever it is assembled.
    pub json: Vec<u8>,
    /// A limit was hit.
    pub truncated: bool,
    /// Metric values that can't be read and stand as 0.
    pub unreadable_values: u64,
    pub measures: SessionMeasures,
}

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    session_id: &'a SessionId,
    request_metrics: &'a [RequestRow<'a>],
    session_metrics: SessionMetrics<'a>,
    output_tokens: i128,
    session: Session<'a>,
    source: Source<'a>,
    responses: &'a [ResponseEntry<'a>],
}

#[derive(Serialize)]
struct Session<'a> {
    model: Option<&'a str>,
    run_id: Option<&'a str>,
    split: Option<&'a str>,
    sample_id: Option<&'a str>,
    end_reason: EndReason,
    close_reason: Option<&'a str>,
    stream_start_source: StreamStartSource,
    clock: ReceiveClock,
    events: u64,
    duplicates: u64,
    gaps: u64,
    late_events: u64,
    errors: &'a BTreeMap<String, u64>,
    responses: BTreeMap<FinalStatus, u64>,
    listens: u64,
    speaks: u64,
    overlap: &'a BTreeMap<String, u64>,
    resumes: u64,
    first_event_ms: Option<i64>,
    last_event_ms: Option<i64>,
    duration_ms: Option<f64>,
    truncated: bool,
}

#[derive(Serialize)]
struct Source<'a> {
    topic: &'a str,
    partition: Partition,
    first_offset: Offset,
    last_offset: Offset,
}

/// Makes the bundle of a session that [`finish`](SessionCollector::finish)ed, of `max_bytes` at most as long as it has
/// something to leave out: first its last `responses`, so that they never cost a row, then its last rows.
#[must_use]
pub fn assemble(
    session: &SessionCollector,
    end_reason: EndReason,
    from: &TopicPartition,
    max_bytes: usize,
) -> Assembled {
    let (id, head) = (session.id(), session.head());
    let start = session.start().expect("a session has an event, so a finished one has a start");
    let known = session.known_responses();
    let mut unreadable_values = 0;
    let (mut rows, mut responses) = (Vec::new(), Vec::with_capacity(known.len()));
    for (response, index) in known.iter().zip(0..) {
        let row = RequestRow::of(id, head, index, response).map(|(row, unreadable)| {
            unreadable_values += unreadable;
            row
        });
        responses.push(ResponseEntry::of(head, start.at, response, row.as_ref().and_then(|row| row.audio.as_ref())));
        rows.extend(row);
    }
    let tokens = rows.iter().filter_map(|row| row.stage0_tokens.as_ref()).map(|stage| stage.output.output_token_count);
    let mut document = Document {
        schema_version: SCHEMA_VERSION,
        session_id: id,
        request_metrics: &rows,
        session_metrics: SessionMetrics::of(id, head, start.at, &rows, &known),
        output_tokens: tokens.fold(0, i128::saturating_add),
        session: Session::of(head, end_reason, start.source, known.iter().map(|response| response.status)),
        source: Source {
            topic: &from.topic,
            partition: from.partition,
            first_offset: head.first_offset,
            last_offset: head.last_offset,
        },
        responses: &responses,
    };
    let measures = SessionMeasures::of(head, document.session_metrics.stream.as_ref(), &rows, &responses);
    let mut json = document.to_json();
    while json.len() > max_bytes && document.leave_out() {
        json = document.to_json();
    }
    Assembled { json, truncated: document.session.truncated, unreadable_values, measures }
}

impl Document<'_> {
    /// Leaves out half of what may be left out; returns whether there was anything.
    fn leave_out(&mut self) -> bool {
        let (responses, rows) = (self.responses.len(), self.request_metrics.len());
        if responses > 0 {
            self.responses = &self.responses[..responses / 2];
        } else if rows > 0 {
            self.request_metrics = &self.request_metrics[..rows / 2];
        } else {
            return false;
        }
        self.session.truncated = true;
        true
    }

    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a bundle can be written to memory")
    }
}

impl<'a> Session<'a> {
    fn of(
        head: &'a Head,
        end_reason: EndReason,
        stream_start_source: StreamStartSource,
        statuses: impl Iterator<Item = Option<FinalStatus>>,
    ) -> Self {
        let mut responses: BTreeMap<FinalStatus, u64> = [
            FinalStatus::Completed,
            FinalStatus::Cancelled,
            FinalStatus::Failed,
            FinalStatus::Incomplete,
            FinalStatus::Unfinished,
        ]
        .map(|status| (status, 0))
        .into();
        for status in statuses {
            *responses.entry(status.unwrap_or(FinalStatus::Unfinished)).or_default() += 1;
        }
        let tallies = &head.tallies;
        Self {
            model: head.model.as_deref().or(head.created_model.as_deref()),
            run_id: head.run_id.as_deref(),
            split: head.split.as_deref(),
            sample_id: head.sample_id.as_deref(),
            end_reason,
            close_reason: head.ended.as_ref().and_then(|end| end.close_reason.as_deref()),
            stream_start_source,
            clock: head.clock,
            events: tallies.events,
            duplicates: tallies.duplicates,
            gaps: tallies.gaps,
            late_events: tallies.late_events,
            errors: tallies.errors.counts(),
            responses,
            listens: tallies.listens,
            speaks: tallies.speaks,
            overlap: tallies.overlap.counts(),
            resumes: tallies.resumes,
            first_event_ms: head.first_event.map(|at| at.0),
            last_event_ms: head.last_event.map(|at| at.0),
            duration_ms: head.duration_ms(),
            truncated: head.truncated,
        }
    }
}
