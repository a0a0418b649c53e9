//! The bundle as it is written (contract.md section 5).

use std::collections::BTreeMap;

use serde::Serialize;

use super::measures::SessionMeasures;
use super::parts::{Cuts, List, PART_KEYS_BYTES};
use super::response::ResponseEntry;
use super::row::RequestRow;
use super::session_metrics::SessionMetrics;
use super::times::Times;
use crate::collector::{EndReason, FinalStatus, Head, Limits, SessionClock, SessionCollector, StreamStartSource};
use crate::ids::{MAX_SESSION_ID_BYTES, Offset, Partition, TopicPartition};

/// Version of the bundle's shape.
pub const SCHEMA_VERSION: u32 = 1;

/// A bundle, ready to be written.
#[derive(Clone, PartialEq, Debug)]
pub struct Assembled {
    /// One JSON object, no newline. The same session gives the same bytes, whenever it is assembled.
    pub json: Vec<u8>,
    /// Where it may be cut.
    pub cuts: Cuts,
    /// A limit was hit.
    pub truncated: bool,
    /// Metric values that can't be read and stand as 0.
    pub unreadable_values: u64,
    pub measures: SessionMeasures,
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
    clock: SessionClock,
    events: u32,
    duplicates: u32,
    gaps: u32,
    late_events: u32,
    errors: &'a BTreeMap<String, u64>,
    responses: BTreeMap<FinalStatus, u64>,
    listens: u32,
    speaks: u32,
    overlap: &'a BTreeMap<String, u64>,
    resumes: u32,
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

/// Bytes of a row, which can't be cut. Of a larger one the lists of intervals are left out, whose summaries stay, then the
/// stages.
const ROW_BYTES: usize = 512 << 10;
/// Bytes of the session's metrics; of larger ones the stages are left out.
const SESSION_METRICS_BYTES: usize = 256 << 10;

/// Bytes of the largest piece of a bundle that can't be cut, a row or what stands beside the rows, with its key as a record.
#[must_use]
pub fn largest_piece(limits: &Limits) -> usize {
    /// What numbers and the names of keys come to.
    const NUMBERS: usize = 8 << 10;
    // Each byte of a text may be escaped, as six.
    let text = 6 * limits.text_bytes + 32;
    let names = 2 * (limits.error_codes + 1) * text;
    let beside = PART_KEYS_BYTES + MAX_SESSION_ID_BYTES;
    ROW_BYTES.max(6 * text + NUMBERS).max(SESSION_METRICS_BYTES + names + 8 * text + NUMBERS) + beside
}

/// Makes the bundle of a session that [`finish`](SessionCollector::finish)ed.
#[must_use]
pub fn assemble(session: &SessionCollector, end_reason: EndReason, from: &TopicPartition) -> Assembled {
    let (id, head) = (session.id(), session.head());
    let start = session.start().expect("a session has an event, so a finished one has a start");
    let times = Times::of(session, start);
    let known = session.known_responses();
    let mut unreadable_values = 0;
    let (mut rows, mut responses) = (Vec::new(), Vec::with_capacity(known.len()));
    for (response, index) in known.iter().zip(0..) {
        let row = RequestRow::of(id, head, times, index, response).map(|(row, unreadable)| {
            unreadable_values += unreadable;
            row
        });
        responses.push(ResponseEntry::of(head, times, response, row.as_ref().and_then(|row| row.audio.as_ref())));
        rows.extend(row);
    }
    let tokens = rows.iter().filter_map(|row| row.stage0_tokens.as_ref()).map(|stage| stage.output.output_token_count);
    let output_tokens = tokens.fold(0, i128::saturating_add);
    let mut metrics = SessionMetrics::of(id, head, times, &rows, &known);
    let measures = SessionMeasures::of(head, times, metrics.stream.as_ref(), &rows, &responses);
    let mut about = Session::of(head, end_reason, start.source, known.iter().map(|response| response.status));
    let source = Source {
        topic: &from.topic,
        partition: from.partition,
        first_offset: head.first_offset,
        last_offset: head.last_offset,
    };

    let mut json = format!(r#"{{"schema_version":{SCHEMA_VERSION},"session_id":"#).into_bytes();
    append(&mut json, id);
    json.extend_from_slice(br#","request_metrics":"#);
    let rows = List::write(&mut json, rows.into_iter(), |json, mut row| {
        about.truncated |=
            append_within(json, ROW_BYTES, &mut row, &[RequestRow::leave_out_lists, RequestRow::leave_out_stages]);
    });
    json.extend_from_slice(br#","session_metrics":"#);
    about.truncated |=
        append_within(&mut json, SESSION_METRICS_BYTES, &mut metrics, &[SessionMetrics::leave_out_stages]);
    json.extend_from_slice(br#","output_tokens":"#);
    append(&mut json, &output_tokens);
    json.extend_from_slice(br#","session":"#);
    append(&mut json, &about);
    json.extend_from_slice(br#","source":"#);
    append(&mut json, &source);
    json.extend_from_slice(br#","responses":"#);
    let responses = List::write(&mut json, responses.iter(), append);
    json.push(b'}');
    Assembled { json, cuts: Cuts { rows, responses }, truncated: about.truncated, unreadable_values, measures }
}

fn append(json: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(json, value).expect("a bundle can be written to memory");
}

/// Appends a value, by one thing after the other the less it is over `max_bytes`; whether anything was left out.
fn append_within<T: Serialize>(json: &mut Vec<u8>, max_bytes: usize, value: &mut T, leave_out: &[fn(&mut T)]) -> bool {
    let start = json.len();
    append(json, value);
    let mut left_out = leave_out.iter();
    let mut is_whole = true;
    while json.len() - start > max_bytes
        && let Some(leave_out) = left_out.next()
    {
        is_whole = false;
        leave_out(value);
        json.truncate(start);
        append(json, value);
    }
    !is_whole
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
            split: head.split(),
            sample_id: head.sample_id(),
            end_reason,
            close_reason: head.ended.as_ref().and_then(|end| end.close_reason.as_deref()),
            stream_start_source,
            clock: head.received.clock(),
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
            duration_ms: head.received.duration_ms(),
            truncated: head.truncated,
        }
    }
}
