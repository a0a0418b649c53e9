//! The run-level distributions, fed with bundles: what the gauges, `/report` and the demo's table show.
//!
//! Holds the samples of a run, not its bundles.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::collector::EndReason;
use crate::distribution::{Distribution, Samples};

/// The distributions of every run seen on the bundles topic.
#[derive(Debug)]
pub struct RunView {
    default_run_id: String,
    runs: BTreeMap<String, Run>,
}

#[derive(Debug, Default)]
struct Run {
    sessions: BTreeMap<EndReason, u64>,
    responses: u64,
    stream_ttft_ms: Samples,
    stream_ttfp_ms: Samples,
    stream_rtf: Samples,
    response_ttft_ms: Samples,
    response_ttfp_ms: Samples,
    client_ttft_ms: Samples,
    client_ttfp_ms: Samples,
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
        Self { default_run_id: default_run_id.to_owned(), runs: BTreeMap::new() }
    }

    /// The figures of every run, by run id.
    pub fn summaries(&mut self) -> Vec<RunSummary> {
        self.runs.iter_mut().map(|(run_id, run)| run.summary(run_id)).collect()
    }
}

impl Run {
    fn summary(&mut self, run_id: &str) -> RunSummary {
        RunSummary {
            run_id: run_id.to_owned(),
            sessions: self.sessions.values().sum(),
            sessions_by_end_reason: self.sessions.clone(),
            responses: self.responses,
            duplex_stream_ttft_ms: self.stream_ttft_ms.summary(3),
            duplex_stream_ttfp_ms: self.stream_ttfp_ms.summary(3),
            duplex_stream_rtf: self.stream_rtf.summary(6),
            duplex_response_ttft_ms: self.response_ttft_ms.summary(3),
            duplex_response_ttfp_ms: self.response_ttfp_ms.summary(3),
            duplex_client_ttft_ms: self.client_ttft_ms.summary(3),
            duplex_client_ttfp_ms: self.client_ttfp_ms.summary(3),
        }
    }
}
