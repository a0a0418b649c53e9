//! The metrics of one session (contract.md section 4).

use serde::Serialize;

use super::ordered::Ordered;
use super::row::{RequestRow, real_time_factor};
use super::stage::{StageBlock, StageOutput};
use super::times::Times;
use crate::collector::{Head, Moment, ResponseFacts};
use crate::distribution::Distribution;
use crate::ids::SessionId;
use crate::numeric::{CompensatedSum, r3};

/// `session_metrics`
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SessionMetrics<'a> {
    session_id: &'a SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_id: Option<&'a str>,
    audio_turn_count: usize,
    ttft_ms: Option<Distribution>,
    ttfp_ms: Option<Distribution>,
    rtf: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tpot_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    stages: Ordered<StageDistributions>,
    #[serde(flatten)]
    pub stream: Option<StreamMetrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_ttft_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_ttfp_ms: Option<Distribution>,
}

/// The part that needs a known response with an audio packet in the window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct StreamMetrics {
    pub stream_ttft_ms: Option<f64>,
    pub stream_ttfp_ms: Option<f64>,
    pub stream_rtf: Option<f64>,
    stream_audio_generation_ms: Option<f64>,
    stream_audio_duration_ms: f64,
    stream_measurement_origin: StreamOrigin,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct StreamOrigin {
    ttft: &'static str,
    ttfp: &'static str,
    rtf: &'static str,
}

const STREAM_ORIGIN: StreamOrigin = StreamOrigin {
    ttft: "input stream start to first non-empty text delta",
    ttfp: "input stream start to first audio packet",
    rtf: "input stream start-to-last-audio receive time divided by total emitted audio duration; includes concurrent \
          realtime input",
};

/// A stage's distributions over the rows.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
struct StageDistributions {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tpot_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfc_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tpop_ms: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttfp_ms: Option<Distribution>,
}

impl<'a> SessionMetrics<'a> {
    /// The metrics of a session from its rows and its known responses, both by index.
    pub fn of(
        session_id: &'a SessionId,
        head: &'a Head,
        times: Times,
        rows: &[RequestRow<'_>],
        known: &[&ResponseFacts],
    ) -> Self {
        let audio = || rows.iter().filter_map(|row| row.audio.as_ref());
        Self {
            session_id,
            split: head.split(),
            sample_id: head.sample_id(),
            audio_turn_count: rows.len(),
            ttft_ms: Distribution::of(audio().filter_map(|row| row.ttft_ms)),
            ttfp_ms: Distribution::of(audio().filter_map(|row| row.ttfp_ms)),
            rtf: Distribution::of_rtf(audio().filter_map(|row| row.rtf)),
            tpot_ms: Distribution::of(audio().filter_map(|row| row.tpot_ms.flatten()).filter(|ms| *ms > 0.0)),
            stages: stages(rows),
            stream: StreamMetrics::of(head, times, known),
            client_ttft_ms: Distribution::of(audio().filter_map(|row| row.client_ttft_ms)),
            client_ttfp_ms: Distribution::of(audio().filter_map(|row| row.client_ttfp_ms)),
        }
    }
}

impl SessionMetrics<'_> {
    /// Leaves out the distributions by stage.
    pub fn leave_out_stages(&mut self) {
        self.stages = Ordered::default();
    }
}

impl StreamMetrics {
    fn of(head: &Head, times: Times, known: &[&ResponseFacts]) -> Option<Self> {
        let by_arrival = |moment: &Moment| moment.ordinal;
        let windows = || known.iter().map(|response| &response.in_window);
        let first_text = windows().filter_map(|window| window.first_text).min_by_key(by_arrival);
        let first_audio = windows().filter_map(|window| window.first_audio).min_by_key(by_arrival)?;
        let last_audio = windows().filter_map(|window| window.last_audio).max_by_key(by_arrival)?;
        let since_start = |moment: Moment| times.since_start(moment).map(|seconds| seconds * 1000.0);
        let duration: CompensatedSum = known
            .iter()
            .map(|response| {
                response.in_window.stream_duration_ms().unwrap_or_else(|| head.duration_of_bytes_ms(response.bytes))
            })
            .collect();
        let stream_audio_generation_ms = since_start(last_audio).map(|ms| r3(ms.max(0.0)));
        let stream_audio_duration_ms = r3(duration.total());
        Some(Self {
            stream_ttft_ms: first_text.and_then(since_start).map(r3),
            stream_ttfp_ms: since_start(first_audio).map(r3),
            stream_rtf: real_time_factor(stream_audio_generation_ms, stream_audio_duration_ms),
            stream_audio_generation_ms,
            stream_audio_duration_ms,
            stream_measurement_origin: STREAM_ORIGIN,
        })
    }
}

fn stages(rows: &[RequestRow<'_>]) -> Ordered<StageDistributions> {
    let mut by_stage: Ordered<Vec<&StageBlock>> = Ordered::default();
    for (id, block) in rows.iter().flat_map(|row| &row.stages.0) {
        by_stage.entry(id).push(block);
    }
    let distributions = by_stage.0.into_iter().map(|(id, blocks)| (id, StageDistributions::of(&blocks)));
    Ordered(distributions.filter(|(_, stage)| *stage != StageDistributions::default()).collect())
}

impl StageDistributions {
    fn of(blocks: &[&StageBlock]) -> Self {
        let over = |value: fn(&StageOutput) -> Option<f64>| {
            Distribution::of(blocks.iter().filter_map(|block| value(&block.output)))
        };
        Self {
            ttft_ms: over(|output| match output {
                StageOutput::Text(text) => Some(text.ttft_ms),
                _ => None,
            }),
            tpot_ms: over(|output| match output {
                StageOutput::Text(text) => Some(text.tpot_ms).filter(|ms| *ms > 0.0),
                _ => None,
            }),
            ttfc_ms: over(|output| match output {
                StageOutput::Stream { ttfc_ms, .. } => Some(*ttfc_ms),
                _ => None,
            }),
            tpop_ms: over(|output| match output {
                StageOutput::Stream { tpop_ms, .. } => Some(*tpop_ms).filter(|ms| *ms > 0.0),
                _ => None,
            }),
            ttfp_ms: over(|output| match output {
                StageOutput::Audio { ttfp_ms, .. } => *ttfp_ms,
                _ => None,
            }),
        }
    }
}
