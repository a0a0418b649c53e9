//! Finished sessions as metrics: milliseconds become seconds, and what is no figure is left out.

use std::collections::BTreeSet;

use prometheus::Histogram;

use super::catalog::SessionFamilies;
use crate::bundle::{LatencySource, ResponseMeasures, SessionMeasures};
use crate::numeric::seconds;
use crate::task::FinishedSession;
use crate::time::Timestamp;

impl SessionFamilies {
    /// Counts a session whose bundle was committed at `committed_at`, by the wall clock.
    pub(super) fn count(&self, session: &FinishedSession, committed_at: Timestamp) {
        self.bundle_latency.observe(committed_at.since(session.ended_at).as_secs_f64());
        let measures = &session.measures;
        self.decisions.with_label_values(&["listen"]).inc_by(measures.listens);
        self.decisions.with_label_values(&["speak"]).inc_by(measures.speaks);
        for (action, n) in &measures.overlaps {
            self.overlaps.with_label_values(&[action]).inc_by(*n);
        }
        for (code, n) in &measures.errors {
            self.errors.with_label_values(&[code]).inc_by(*n);
        }
        self.resumes.inc_by(measures.resumes);
        self.sequence_gaps.inc_by(measures.sequence_gaps);
        observe_ms(&self.duration, measures.duration_ms);
        match measures.stream {
            Some(stream) => {
                observe_ms(&self.stream_ttft, stream.ttft_ms);
                observe_ms(&self.stream_ttfp, stream.ttfp_ms);
                observe(&self.stream_rtf, stream.rtf);
            }
            None => self.without_audio.inc(),
        }
        if let Some(fault) = measures.clock_fault {
            self.clock_faults.with_label_values(&[fault.as_str()]).inc();
        }
        if let Some(source) = ttft_source(measures) {
            self.ttft_sources.with_label_values(&[source]).inc();
        }
        measures.responses.iter().for_each(|response| self.count_response(response));
    }

    fn count_response(&self, response: &ResponseMeasures) {
        self.responses.with_label_values(&[response.status.as_str()]).inc();
        for (latency, counter, histogram) in [
            (response.ttft_ms, &self.response_ttft_sources, &self.response_ttft),
            (response.ttfp_ms, &self.response_ttfp_sources, &self.response_ttfp),
        ] {
            if let Some((source, ms)) = latency {
                counter.with_label_values(&[source.as_str()]).inc();
                observe_ms(&histogram.with_label_values(&[source.as_str()]), Some(ms));
            }
        }
        observe(&self.response_rtf, response.rtf);
        observe_ms(&self.audio_gap, response.max_audio_gap_ms);
        observe_ms(&self.barge_in, response.speech_to_cancel_ms);
        self.underruns.inc_by(response.underruns);
        if response.underrun_ms.is_finite() {
            self.underrun_seconds.inc_by(seconds(response.underrun_ms));
        }
    }
}

/// Who measured the TTFT of a session's responses; `None` where none has one.
fn ttft_source(measures: &SessionMeasures) -> Option<&'static str> {
    let sources: BTreeSet<LatencySource> =
        measures.responses.iter().filter_map(|response| response.ttft_ms).map(|(source, _)| source).collect();
    match sources.len() {
        0 | 1 => sources.first().map(|source| source.as_str()),
        _ => Some("mixed"),
    }
}

fn observe_ms(histogram: &Histogram, ms: Option<f64>) {
    observe(histogram, ms.map(seconds));
}

/// A time that went backwards is none, and one infinite value would spoil a sum for ever.
fn observe(histogram: &Histogram, value: Option<f64>) {
    if let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) {
        histogram.observe(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::StreamMeasures;
    use crate::collector::{FinalStatus, SessionClock};
    use crate::metrics::Metrics;

    const QUIET: ResponseMeasures = ResponseMeasures {
        status: FinalStatus::Unfinished,
        ttft_ms: None,
        ttfp_ms: None,
        rtf: None,
        max_audio_gap_ms: None,
        underruns: 0,
        underrun_ms: 0.0,
        speech_to_cancel_ms: None,
    };

    /// The series that are not 0 after these sessions, committed at 10 s.
    fn counted(sessions: &[SessionMeasures]) -> Vec<String> {
        let metrics = Metrics::new(Timestamp(0));
        for measures in sessions {
            let session = FinishedSession { ended_at: Timestamp(8_500), measures: measures.clone() };
            metrics.catalog().sessions.count(&session, Timestamp(10_000));
        }
        let text = metrics.encode();
        let ours =
            |line: &&str| line.starts_with("duplex_") && !line.contains("build_info") && !line.contains("_bucket");
        text.lines().filter(ours).filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
    }

    #[test]
    fn a_session_counts_in_seconds_and_by_closed_sets() {
        let cancelled = ResponseMeasures {
            status: FinalStatus::Cancelled,
            ttft_ms: Some((LatencySource::Server, 250.0)),
            ttfp_ms: Some((LatencySource::Client, 500.0)),
            rtf: Some(0.75),
            max_audio_gap_ms: Some(1500.0),
            underruns: 2,
            underrun_ms: 750.0,
            speech_to_cancel_ms: Some(125.0),
        };
        let session = SessionMeasures {
            stream: Some(StreamMeasures { ttft_ms: Some(3000.0), ttfp_ms: Some(3500.0), rtf: Some(2.5) }),
            duration_ms: Some(12_000.0),
            clock_fault: Some(SessionClock::Unsteady),
            listens: 4,
            speaks: 3,
            resumes: 2,
            sequence_gaps: 1,
            overlaps: [("barge_in", 1)].into(),
            errors: [("server_error", 1), ("other", 2)].into(),
            responses: vec![cancelled, QUIET],
        };
        assert_eq!(
            counted(&[session]),
            [
                "duplex_barge_in_seconds_sum 0.125",
                "duplex_barge_in_seconds_count 1",
                "duplex_bundle_latency_seconds_sum 1.5",
                "duplex_bundle_latency_seconds_count 1",
                "duplex_decisions_total{decision=\"listen\"} 4",
                "duplex_decisions_total{decision=\"speak\"} 3",
                "duplex_overlaps_total{action=\"barge_in\"} 1",
                "duplex_playback_underrun_seconds_total 0.75",
                "duplex_playback_underruns_total 2",
                "duplex_response_audio_gap_seconds_sum 1.5",
                "duplex_response_audio_gap_seconds_count 1",
                "duplex_response_rtf_sum 0.75",
                "duplex_response_rtf_count 1",
                "duplex_response_ttfp_seconds_sum{source=\"client\"} 0.5",
                "duplex_response_ttfp_seconds_count{source=\"client\"} 1",
                "duplex_response_ttfp_total{source=\"client\"} 1",
                "duplex_response_ttft_seconds_sum{source=\"server\"} 0.25",
                "duplex_response_ttft_seconds_count{source=\"server\"} 1",
                "duplex_response_ttft_total{source=\"server\"} 1",
                "duplex_responses_total{status=\"cancelled\"} 1",
                "duplex_responses_total{status=\"unfinished\"} 1",
                "duplex_resumes_total 2",
                "duplex_sequence_gaps_total 1",
                "duplex_session_clock_faults_total{clock=\"unsteady\"} 1",
                "duplex_session_duration_seconds_sum 12",
                "duplex_session_duration_seconds_count 1",
                "duplex_session_errors_total{code=\"other\"} 2",
                "duplex_session_errors_total{code=\"server_error\"} 1",
                "duplex_session_ttft_total{source=\"server\"} 1",
                "duplex_stream_rtf_sum 2.5",
                "duplex_stream_rtf_count 1",
                "duplex_stream_ttfp_seconds_sum 3.5",
                "duplex_stream_ttfp_seconds_count 1",
                "duplex_stream_ttft_seconds_sum 3",
                "duplex_stream_ttft_seconds_count 1",
            ]
        );
    }

    #[test]
    fn a_session_without_audio_has_no_figures_and_counts() {
        assert_eq!(
            counted(&[SessionMeasures::default()]),
            [
                "duplex_bundle_latency_seconds_sum 1.5",
                "duplex_bundle_latency_seconds_count 1",
                "duplex_sessions_without_audio_total 1",
            ]
        );
    }

    #[test]
    fn sessions_are_told_apart_by_who_measured_their_ttft() {
        let session = |sources: &[LatencySource]| SessionMeasures {
            responses: sources
                .iter()
                .map(|source| ResponseMeasures { ttft_ms: Some((*source, 1.0)), ..QUIET })
                .chain([QUIET])
                .collect(),
            ..SessionMeasures::default()
        };
        use LatencySource::{Client, Server};
        let sessions = [&[Client, Client][..], &[Client], &[Server], &[Server, Client], &[]].map(session);
        let by_source: Vec<_> =
            counted(&sessions).into_iter().filter(|line| line.starts_with("duplex_session_ttft_total")).collect();
        assert_eq!(
            by_source,
            [
                "duplex_session_ttft_total{source=\"client\"} 2",
                "duplex_session_ttft_total{source=\"mixed\"} 1",
                "duplex_session_ttft_total{source=\"server\"} 1",
            ]
        );
    }

    #[test]
    fn what_is_no_figure_spoils_no_sum() {
        let broken = ResponseMeasures {
            ttft_ms: Some((LatencySource::Client, -1.0)),
            rtf: Some(f64::NAN),
            max_audio_gap_ms: Some(f64::INFINITY),
            underrun_ms: f64::INFINITY,
            ..QUIET
        };
        let session = SessionMeasures { responses: vec![broken], ..SessionMeasures::default() };
        let sums: Vec<_> = counted(&[session]).into_iter().filter(|line| line.contains("_seconds_")).collect();
        assert_eq!(sums, ["duplex_bundle_latency_seconds_sum 1.5", "duplex_bundle_latency_seconds_count 1"]);
    }
}
