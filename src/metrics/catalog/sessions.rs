//! The metrics of finished sessions and their responses, of this process; a session counts once its bundle is committed.
//!
//! Histograms for PromQL to add up over processes; the distributions of a run are its gauges.

use prometheus::{Counter, Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::super::declare::Declare;
use super::super::labels::{CLOCK_FAULTS, FINAL_STATUSES, LATENCY_SOURCES, TTFT_SOURCES};
use crate::collector::SessionClock;
use crate::wire::{ERROR_CODES, OTHER, OVERLAP_ACTIONS};

/// vLLM's of `time_to_first_token_seconds`, so that both can be laid over one another.
const FIRST_OUTPUT_BUCKETS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

/// vLLM-Omni's of `audio_rtf` up to 10; past it, for a stream's RTF includes the time the user speaks.
const RTF_BUCKETS: [f64; 16] =
    [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0];

/// Around the length of a packet, 0.02 to 1 s.
const GAP_BUCKETS: [f64; 14] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0];

/// Around 0.2 to 0.5 s, which feels immediate.
const BARGE_IN_BUCKETS: [f64; 13] = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0];

/// Up to 6 h, the longest by default.
const DURATION_BUCKETS: [f64; 14] =
    [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0];

/// From below `session.grace`, 1 s by default, which is a part of it.
const BUNDLE_LATENCY_BUCKETS: [f64; 16] =
    [0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0, 1800.0];

/// The handles.
#[derive(Debug)]
pub(in crate::metrics) struct SessionFamilies {
    pub responses: IntCounterVec,
    pub decisions: IntCounterVec,
    pub overlaps: IntCounterVec,
    pub errors: IntCounterVec,
    pub resumes: IntCounter,
    pub sequence_gaps: IntCounter,
    pub without_audio: IntCounter,
    pub clock_faults: IntCounterVec,
    pub ttft_sources: IntCounterVec,
    pub response_ttft_sources: IntCounterVec,
    pub response_ttfp_sources: IntCounterVec,
    pub underruns: IntCounter,
    pub underrun_seconds: Counter,
    pub stream_ttft: Histogram,
    pub stream_ttfp: Histogram,
    pub stream_rtf: Histogram,
    pub response_ttft: HistogramVec,
    pub response_ttfp: HistogramVec,
    pub response_rtf: Histogram,
    pub audio_gap: Histogram,
    pub barge_in: Histogram,
    pub duration: Histogram,
    pub bundle_latency: Histogram,
}

impl SessionFamilies {
    pub(super) fn declare(to: &Declare<'_>) -> Self {
        let families = Self {
            responses: to.counters("duplex_responses_total", "Responses by final status.", &["status"]),
            decisions: to.counters("duplex_decisions_total", "The model's decisions to listen or to speak.", &[
                "decision",
            ]),
            overlaps: to.counters(
                "duplex_overlaps_total",
                "Overlap decisions by action; other is one that the protocol does not know.",
                &["action"],
            ),
            errors: to.counters(
                "duplex_session_errors_total",
                "Error events by code; other is one that is not well known.",
                &["code"],
            ),
            resumes: to.counter("duplex_resumes_total", "Sessions resumed after their connection was lost."),
            sequence_gaps: to.counter(
                "duplex_sequence_gaps_total",
                "Places where server_event_seq jumped: events of the server that never arrived.",
            ),
            without_audio: to.counter(
                "duplex_sessions_without_audio_total",
                "Sessions none of whose responses has audio in the stream's window.",
            ),
            clock_faults: to.counters(
                "duplex_session_clock_faults_total",
                "Sessions whose receive times do not fit together, so that they have no figure made of them: of two \
                 clocks (mixed), or of one that jumped (unsteady).",
                &["clock"],
            ),
            ttft_sources: to.counters(
                "duplex_session_ttft_total",
                "Sessions that have a response TTFT, by who measured it: the server, the client, or each some (mixed).",
                &["source"],
            ),
            response_ttft_sources: to.counters(
                "duplex_response_ttft_total",
                "Responses that have a TTFT, by who measured it: the client's is next to nothing where the server sends \
                 response.created and the first output in one burst.",
                &["source"],
            ),
            response_ttfp_sources: to.counters(
                "duplex_response_ttfp_total",
                "Responses that have a TTFP, by who measured it.",
                &["source"],
            ),
            underruns: to.counter(
                "duplex_playback_underruns_total",
                "Audio packets that came more than 100 ms after all audio before them had been played.",
            ),
            underrun_seconds: to.float_counter(
                "duplex_playback_underrun_seconds_total",
                "Silence that playback underruns put into responses.",
            ),
            stream_ttft: to.histogram(
                "duplex_stream_ttft_seconds",
                "Input stream start to first non-empty text delta of a session.",
                &FIRST_OUTPUT_BUCKETS,
            ),
            stream_ttfp: to.histogram(
                "duplex_stream_ttfp_seconds",
                "Input stream start to first audio packet of a session.",
                &FIRST_OUTPUT_BUCKETS,
            ),
            stream_rtf: to.histogram(
                "duplex_stream_rtf",
                "Stream real-time factor of a session; it includes the time the user speaks.",
                &RTF_BUCKETS,
            ),
            response_ttft: to.histograms(
                "duplex_response_ttft_seconds",
                "TTFT of a response, by who measured it.",
                &["source"],
                &FIRST_OUTPUT_BUCKETS,
            ),
            response_ttfp: to.histograms(
                "duplex_response_ttfp_seconds",
                "TTFP of a response, by who measured it.",
                &["source"],
                &FIRST_OUTPUT_BUCKETS,
            ),
            response_rtf: to.histogram("duplex_response_rtf", "Real-time factor of a response.", &RTF_BUCKETS),
            audio_gap: to.histogram(
                "duplex_response_audio_gap_seconds",
                "Largest time between two consecutive audio packets of a response.",
                &GAP_BUCKETS,
            ),
            barge_in: to.histogram(
                "duplex_barge_in_seconds",
                "Onset of the user's speech to the end of the response that it cut short.",
                &BARGE_IN_BUCKETS,
            ),
            duration: to.histogram(
                "duplex_session_duration_seconds",
                "First to last event of a session by receive time.",
                &DURATION_BUCKETS,
            ),
            bundle_latency: to.histogram(
                "duplex_bundle_latency_seconds",
                "End of a session, or the timeout that ended it, to the commit of its bundle by the wall clock.",
                &BUNDLE_LATENCY_BUCKETS,
            ),
        };
        families.begin_at_zero();
        families
    }

    /// Touches every series of the closed sets, which makes them 0.
    fn begin_at_zero(&self) {
        let touch = |family: &IntCounterVec, values: &[&str]| {
            values.iter().for_each(|value| drop(family.with_label_values(&[value])));
        };
        touch(&self.responses, &FINAL_STATUSES.map(|status| status.as_str()));
        touch(&self.decisions, &["listen", "speak"]);
        touch(&self.overlaps, &OVERLAP_ACTIONS);
        touch(&self.overlaps, &[OTHER]);
        touch(&self.errors, &ERROR_CODES);
        touch(&self.errors, &[OTHER]);
        touch(&self.clock_faults, &CLOCK_FAULTS.map(SessionClock::as_str));
        touch(&self.ttft_sources, &TTFT_SOURCES);
        let sources = LATENCY_SOURCES.map(|source| source.as_str());
        for family in [&self.response_ttft_sources, &self.response_ttfp_sources] {
            touch(family, &sources);
        }
        for source in sources {
            self.response_ttft.with_label_values(&[source]);
            self.response_ttfp.with_label_values(&[source]);
        }
    }
}
