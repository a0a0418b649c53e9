//! What metrics want to know of a finished session: the figures of its bundle, without names and ids.

use std::collections::BTreeMap;

use super::response::ResponseEntry;
use super::row::{LatencySource, RequestRow};
use super::session_metrics::StreamMetrics;
use super::times::Times;
use crate::collector::{FinalStatus, Head, SessionClock};
use crate::wire::{error_code, overlap_action};

/// One finished session, of all its responses, whatever the bundle had to leave out.
///
/// Its figures are those of the bundle: where that has none, there is none here.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SessionMeasures {
    /// `None` where no response has audio in the stream's window.
    pub stream: Option<StreamMeasures>,
    /// First to last event by receive time.
    pub duration_ms: Option<f64>,
    /// `Mixed` or `Unsteady` where its receive times do not fit together.
    pub clock_fault: Option<SessionClock>,
    pub listens: u64,
    pub speaks: u64,
    pub resumes: u64,
    pub sequence_gaps: u64,
    /// By the names the protocol knows.
    pub overlaps: BTreeMap<&'static str, u64>,
    pub errors: BTreeMap<&'static str, u64>,
    pub responses: Vec<ResponseMeasures>,
}

/// A session's figures from its stream start on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StreamMeasures {
    pub ttft_ms: Option<f64>,
    pub ttfp_ms: Option<f64>,
    pub rtf: Option<f64>,
}

/// One known response.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResponseMeasures {
    pub status: FinalStatus,
    pub ttft_ms: Option<(LatencySource, f64)>,
    pub ttfp_ms: Option<(LatencySource, f64)>,
    pub rtf: Option<f64>,
    pub max_audio_gap_ms: Option<f64>,
    pub underruns: u64,
    pub underrun_ms: f64,
    pub speech_to_cancel_ms: Option<f64>,
}

impl SessionMeasures {
    /// The measures of a session from the parts of its bundle; `rows` and `responses` by index.
    pub fn of(
        head: &Head,
        times: Times,
        stream: Option<&StreamMetrics>,
        rows: &[RequestRow<'_>],
        responses: &[ResponseEntry<'_>],
    ) -> Self {
        let tallies = &head.tallies;
        let mut rows = rows.iter().peekable();
        let responses = responses.iter().zip(0..).map(|(response, index)| {
            let row = rows.next_if(|row| row.request_index == index);
            ResponseMeasures::of(response, row)
        });
        Self {
            stream: stream.map(StreamMeasures::of),
            duration_ms: head.received.duration_ms(),
            clock_fault: times.fault,
            listens: tallies.listens.into(),
            speaks: tallies.speaks.into(),
            resumes: tallies.resumes.into(),
            sequence_gaps: tallies.gaps.into(),
            overlaps: by_known_name(tallies.overlap.counts(), overlap_action),
            errors: by_known_name(tallies.errors.counts(), error_code),
            responses: responses.collect(),
        }
    }

    /// What holding it costs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.responses.len() * size_of::<ResponseMeasures>()
    }
}

impl StreamMeasures {
    fn of(stream: &StreamMetrics) -> Self {
        Self { ttft_ms: stream.stream_ttft_ms, ttfp_ms: stream.stream_ttfp_ms, rtf: stream.stream_rtf }
    }
}

impl ResponseMeasures {
    fn of(response: &ResponseEntry<'_>, row: Option<&RequestRow<'_>>) -> Self {
        let row = row.and_then(|row| row.audio.as_ref());
        Self {
            status: response.status,
            ttft_ms: row.and_then(|row| row.ttft_source.zip(row.ttft_ms)),
            ttfp_ms: row.and_then(|row| row.ttfp_source.zip(row.ttfp_ms)),
            rtf: row.and_then(|row| row.rtf),
            max_audio_gap_ms: response.max_audio_gap_ms,
            underruns: response.underruns.unwrap_or(0),
            underrun_ms: response.underrun_ms.unwrap_or(0.0),
            speech_to_cancel_ms: response.speech_to_cancel_ms,
        }
    }
}

fn by_known_name(counts: &BTreeMap<String, u64>, known: fn(&str) -> &'static str) -> BTreeMap<&'static str, u64> {
    let mut by_name = BTreeMap::new();
    for (name, n) in counts {
        *by_name.entry(known(name)).or_default() += n;
    }
    by_name
}
