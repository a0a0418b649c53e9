//! The samples that run-level distributions are made of.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::measure::Measure;
use crate::collector::FinalStatus;
use crate::distribution::{Distribution, Figures, Samples, Shape};

/// `source` of a row that uses a server value (contract.md section 3).
const BY_SERVER: &str = "server_request_start_and_client_receive";

/// What the distributions take from a request row.
#[derive(Deserialize)]
pub struct RowMetrics<'a> {
    #[serde(borrow, default)]
    pub response_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(default)]
    pub ttft_ms: Option<f64>,
    #[serde(default)]
    pub ttfp_ms: Option<f64>,
    #[serde(default)]
    pub client_ttft_ms: Option<f64>,
    #[serde(default)]
    pub client_ttfp_ms: Option<f64>,
    #[serde(default)]
    pub rtf: Option<f64>,
    #[serde(default)]
    pub tpot_ms: Option<f64>,
}

impl RowMetrics<'_> {
    /// Whether it has a server's value, without saying for which of the two.
    pub fn uses_server(&self) -> bool {
        self.source.as_deref() == Some(BY_SERVER)
    }
}

/// What the distributions take from a session's metrics.
#[derive(Deserialize)]
pub struct StreamMetrics {
    #[serde(default)]
    pub stream_ttft_ms: Option<f64>,
    #[serde(default)]
    pub stream_ttfp_ms: Option<f64>,
    #[serde(default)]
    pub stream_rtf: Option<f64>,
}

/// What they take from a response's own facts, which bundles of earlier releases lack.
#[derive(Deserialize)]
pub struct ResponseView<'a> {
    #[serde(borrow)]
    pub response_id: Cow<'a, str>,
    #[serde(default)]
    pub ttft_source: Option<Source>,
    #[serde(default)]
    pub ttfp_source: Option<Source>,
    #[serde(default)]
    pub max_audio_gap_ms: Option<f64>,
    pub status: FinalStatus,
    // Milliseconds since the stream start.
    #[serde(default)]
    pub created_ms: Option<f64>,
    #[serde(default)]
    pub first_text_ms: Option<f64>,
    #[serde(default)]
    pub first_audio_ms: Option<f64>,
    #[serde(default)]
    pub last_audio_ms: Option<f64>,
    #[serde(default)]
    pub ended_ms: Option<f64>,
    #[serde(default)]
    pub audio_packets: u64,
    #[serde(default)]
    pub audio_duration_ms: f64,
    #[serde(default)]
    pub speech_to_cancel_ms: Option<f64>,
}

impl ResponseView<'_> {
    /// Whether it has no time since the stream start.
    pub fn has_no_time(&self) -> bool {
        [self.created_ms, self.first_text_ms, self.first_audio_ms, self.last_audio_ms].iter().all(Option::is_none)
    }
}

/// Who measured a response's TTFT or TTFP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Server,
    Client,
}

/// The samples of a report, of a run, or of a part of one.
#[derive(Clone, Debug)]
pub struct RunSamples {
    samples: [Samples; Measure::ALL.len()],
    /// Of the plotted measures.
    shapes: [Shape; Measure::PLOTTED.len()],
}

impl RunSamples {
    /// None yet; each measure keeps `bound` of them exactly.
    #[must_use]
    pub fn bounded(bound: usize) -> Self {
        Self {
            samples: Measure::ALL.map(|_| Samples::bounded(bound)),
            shapes: Measure::PLOTTED.map(|_| Shape::default()),
        }
    }

    /// Adds a request row's values; `response` is what the bundle says of the row's response.
    pub fn add_row(&mut self, row: &RowMetrics<'_>, response: Option<&ResponseView<'_>>) {
        self.add(|measure| measure.of_row(row, response));
    }

    /// Adds a session's values.
    pub fn add_session(&mut self, session: &StreamMetrics) {
        self.add(|measure| measure.of_session(session));
    }

    /// Finite values >= 0 count (contract.md section 6); what is not finite was written as null.
    fn add(&mut self, value: impl Fn(Measure) -> Option<f64>) {
        for measure in Measure::ALL {
            if let Some(value) = value(measure).filter(|value| *value >= 0.0) {
                self.samples[measure as usize].add(value);
                if let Some(plotted) = measure.plotted() {
                    self.shapes[plotted].add(value);
                }
            }
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.samples.iter_mut().zip(&other.samples).for_each(|(samples, others)| samples.merge(others));
        self.shapes.iter_mut().zip(&other.shapes).for_each(|(shape, other)| shape.merge(other));
    }

    /// The shapes of the plotted measures.
    pub fn shapes(&self) -> impl Iterator<Item = (Measure, &Shape)> {
        Measure::PLOTTED.into_iter().zip(&self.shapes)
    }

    /// The figures of a measure, `None` where it has no sample.
    pub fn figures(&mut self, measure: Measure) -> Option<Figures> {
        self.samples[measure as usize].figures(measure.digits())
    }

    /// The reference's summary of a measure.
    pub fn distribution(&mut self, measure: Measure) -> Option<Distribution> {
        self.figures(measure).map(Distribution::from)
    }
}

/// Keeps everything.
impl Default for RunSamples {
    fn default() -> Self {
        Self::bounded(usize::MAX)
    }
}
