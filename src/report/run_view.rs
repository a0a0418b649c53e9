//! The run-level distributions, fed with bundles: what the gauges, `/report` and the demo's table show.
//!
//! Holds the samples of a run, not its bundles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::samples::{RowMetrics, RunSamples, StreamMetrics};
use crate::collector::EndReason;
use crate::distribution::Distribution;

/// The distributions of every run seen on the bundles topic.
#[derive(Debug)]
pub struct RunView {
    default_run_id: String,
    runs: BTreeMap<String, Run>,
    unreadable: u64,
}

#[derive(Debug, Default)]
struct Run {
    sessions: BTreeMap<EndReason, u64>,
    responses: u64,
    samples: RunSamples,
}

/// How many runs are shown. Sessions of further ones count for [`OTHER_RUNS`]: the id comes from producers.
const MAX_RUNS: usize = 100;

/// The run of all sessions whose run found no room.
const OTHER_RUNS: &str = "other";

/// What is read of a bundle.
#[derive(Deserialize)]
struct BundleView<'a> {
    request_metrics: Vec<RowMetrics>,
    session_metrics: StreamMetrics,
    #[serde(borrow)]
    session: SessionView<'a>,
}

#[derive(Deserialize)]
struct SessionView<'a> {
    #[serde(borrow, default)]
    run_id: Option<std::borrow::Cow<'a, str>>,
    end_reason: EndReason,
}

/// One run's figures, under the report's own names (contract.md section 6); absent where there is no sample.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunSummary {
    pub run_id: String,
    /// Sessions finished, all end reasons.
    pub sessions: u64,
    pub sessions_by_end_reason: BTreeMap<EndReason, u64>,
    /// Request rows.
    pub responses: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_stream_ttft_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_stream_ttfp_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_stream_rtf: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_response_ttft_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_response_ttfp_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_client_ttft_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex_client_ttfp_ms: Option<Distribution>,
}

impl RunView {
    /// An empty view; bundles without a `run_id` count for `default_run_id`.
    #[must_use]
    pub fn new(default_run_id: &str) -> Self {
        Self { default_run_id: default_run_id.to_owned(), runs: BTreeMap::new(), unreadable: 0 }
    }

    /// Takes one record of the bundles topic. One that is no bundle is counted and passed over.
    pub fn observe(&mut self, bundle: &[u8]) {
        let Ok(bundle) = serde_json::from_slice::<BundleView<'_>>(bundle) else {
            self.unreadable += 1;
            return;
        };
        let run_id = bundle.session.run_id.as_deref().unwrap_or(&self.default_run_id);
        let has_room = self.runs.len() < MAX_RUNS || self.runs.contains_key(run_id);
        let run = self.runs.entry(if has_room { run_id } else { OTHER_RUNS }.to_owned()).or_default();
        *run.sessions.entry(bundle.session.end_reason).or_default() += 1;
        run.responses += bundle.request_metrics.len() as u64;
        bundle.request_metrics.iter().for_each(|row| run.samples.add_row(row));
        run.samples.add_session(&bundle.session_metrics);
    }

    /// The figures of every run, by run id.
    pub fn summaries(&mut self) -> Vec<RunSummary> {
        self.runs.iter_mut().map(|(run_id, run)| run.summary(run_id)).collect()
    }

    /// Records that were no bundles.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

impl Run {
    fn summary(&mut self, run_id: &str) -> RunSummary {
        let distributions = self.samples.distributions();
        RunSummary {
            run_id: run_id.to_owned(),
            sessions: self.sessions.values().sum(),
            sessions_by_end_reason: self.sessions.clone(),
            responses: self.responses,
            duplex_stream_ttft_ms: distributions.stream_ttft_ms,
            duplex_stream_ttfp_ms: distributions.stream_ttfp_ms,
            duplex_stream_rtf: distributions.stream_rtf,
            duplex_response_ttft_ms: distributions.response_ttft_ms,
            duplex_response_ttfp_ms: distributions.response_ttfp_ms,
            duplex_client_ttft_ms: distributions.client_ttft_ms,
            duplex_client_ttfp_ms: distributions.client_ttfp_ms,
        }
    }
}
