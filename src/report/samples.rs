//! The samples that run-level distributions are made of.

use serde::Deserialize;

use crate::distribution::{Distribution, Samples};

/// What the distributions take from a request row.
#[derive(Deserialize)]
pub struct RowMetrics {
    #[serde(default)]
    ttft_ms: Option<f64>,
    #[serde(default)]
    ttfp_ms: Option<f64>,
    #[serde(default)]
    client_ttft_ms: Option<f64>,
    #[serde(default)]
    client_ttfp_ms: Option<f64>,
}

/// What the distributions take from a session's metrics.
#[derive(Deserialize)]
pub struct StreamMetrics {
    #[serde(default)]
    stream_ttft_ms: Option<f64>,
    #[serde(default)]
    stream_ttfp_ms: Option<f64>,
    #[serde(default)]
    stream_rtf: Option<f64>,
}

/// The samples of a report or of a run.
#[derive(Clone, Debug, Default)]
pub struct RunSamples {
    stream_ttft_ms: Samples,
    stream_ttfp_ms: Samples,
    stream_rtf: Samples,
    response_ttft_ms: Samples,
    response_ttfp_ms: Samples,
    client_ttft_ms: Samples,
    client_ttfp_ms: Samples,
}

/// The distributions, `None` where there is no sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunDistributions {
    pub stream_ttft_ms: Option<Distribution>,
    pub stream_ttfp_ms: Option<Distribution>,
    pub stream_rtf: Option<Distribution>,
    pub response_ttft_ms: Option<Distribution>,
    pub response_ttfp_ms: Option<Distribution>,
    pub client_ttft_ms: Option<Distribution>,
    pub client_ttfp_ms: Option<Distribution>,
}

impl RunSamples {
    /// Adds a request row's values.
    pub fn add_row(&mut self, row: &RowMetrics) {
        add(&mut self.response_ttft_ms, row.ttft_ms);
        add(&mut self.response_ttfp_ms, row.ttfp_ms);
        add(&mut self.client_ttft_ms, row.client_ttft_ms);
        add(&mut self.client_ttfp_ms, row.client_ttfp_ms);
    }

    /// Adds a session's values.
    pub fn add_session(&mut self, session: &StreamMetrics) {
        add(&mut self.stream_ttft_ms, session.stream_ttft_ms);
        add(&mut self.stream_ttfp_ms, session.stream_ttfp_ms);
        add(&mut self.stream_rtf, session.stream_rtf);
    }

    /// The distributions over everything added.
    pub fn distributions(&mut self) -> RunDistributions {
        RunDistributions {
            stream_ttft_ms: self.stream_ttft_ms.summary(3),
            stream_ttfp_ms: self.stream_ttfp_ms.summary(3),
            stream_rtf: self.stream_rtf.summary(6),
            response_ttft_ms: self.response_ttft_ms.summary(3),
            response_ttfp_ms: self.response_ttfp_ms.summary(3),
            client_ttft_ms: self.client_ttft_ms.summary(3),
            client_ttfp_ms: self.client_ttfp_ms.summary(3),
        }
    }
}

/// Finite values >= 0 count (contract.md section 6); what is not finite was written as null.
fn add(samples: &mut Samples, value: Option<f64>) {
    if let Some(value) = value.filter(|value| *value >= 0.0) {
        samples.add(value);
    }
}
