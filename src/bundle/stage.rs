//! Stage blocks: what an engine stage reported, by the kind of its output (contract.md section 3, `stages`).

use serde::Serialize;

use super::ordered::Ordered;
use crate::collector::Stage;
use crate::distribution::IntervalSummary;
use crate::wire::{Scalar, StageSnapshot};

const SOURCE: &str = "engine_stage_metrics";

/// One entry of a row's `stages`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StageBlock {
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_output_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_unit_type: Option<String>,
    #[serde(flatten)]
    pub output: StageOutput,
}

/// What a block says, by kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum StageOutput {
    Text(TextOutput),
    Audio {
        output_unit_count: i128,
        audio_generated_frames: i128,
        audio_duration_s: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        ttfp_ms: Option<f64>,
    },
    Stream {
        output_unit_count: i128,
        ttfc_ms: f64,
        tpop_ms: f64,
        icls_ms: Vec<f64>,
        inter_chunk_interval_ms: IntervalSummary,
    },
    Generic {
        #[serde(skip_serializing_if = "Option::is_none")]
        stage_gen_time_ms: Option<f64>,
    },
}

/// The keys of a text stage, of `stage0_tokens` too.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TextOutput {
    pub output_token_count: i128,
    pub ttft_ms: f64,
    pub tpot_ms: f64,
    itls_ms: Vec<f64>,
    inter_token_interval_ms: IntervalSummary,
}

/// A row's `stage0_tokens`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stage0Tokens {
    source: &'static str,
    #[serde(flatten)]
    pub output: TextOutput,
}

/// A response's stages as its row shows them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stages {
    /// By integer id, then text ids.
    pub blocks: Ordered<StageBlock>,
    pub stage0_tokens: Option<Stage0Tokens>,
    /// Values that can't be read and stand as 0.
    pub unreadable: u64,
}

impl Stages {
    /// The blocks of a response's last snapshots.
    pub fn of(snapshots: &[Stage]) -> Self {
        let mut ordered: Vec<_> = snapshots.iter().collect();
        // Stable, as Python's sort: equal integers keep the order they were seen in.
        ordered.sort_by(|a, b| order(&a.id).cmp(&order(&b.id)));
        let mut values = Values::default();
        let mut stage0_tokens = None;
        let mut blocks = Vec::new();
        for Stage { id, snapshot, .. } in ordered {
            let block = StageBlock::of(snapshot, &mut values);
            if id == "0" {
                let output = match &block.output {
                    StageOutput::Text(output) => output.clone(),
                    _ => TextOutput::of(snapshot, &mut values),
                };
                stage0_tokens = Some(Stage0Tokens { source: SOURCE, output });
            }
            blocks.push((id.clone(), block));
        }
        Self { blocks: Ordered(blocks), stage0_tokens, unreadable: values.unreadable }
    }
}

/// Integer ids by their value, then texts.
fn order(id: &str) -> (bool, i128, &str) {
    match Scalar::parse_int(id) {
        Some(integer) => (false, integer, ""),
        None => (true, 0, id),
    }
}

impl StageBlock {
    fn of(stage: &StageSnapshot, values: &mut Values) -> Self {
        Self {
            source: SOURCE,
            final_output_type: stage.final_output_type.clone(),
            output_unit_type: stage.output_unit_type.clone(),
            output: StageOutput::of(stage, values),
        }
    }
}

impl StageOutput {
    pub fn leave_out_list(&mut self) {
        match self {
            Self::Text(text) => text.leave_out_list(),
            Self::Stream { icls_ms, .. } => *icls_ms = Vec::new(),
            Self::Audio { .. } | Self::Generic { .. } => {}
        }
    }

    fn of(stage: &StageSnapshot, values: &mut Values) -> Self {
        let (output, unit) = (stage.final_output_type.as_deref(), stage.output_unit_type.as_deref());
        let either = |kind| output == Some(kind) || unit == Some(kind);
        let is_image =
            matches!(output, Some("image" | "images" | "video" | "videos")) || matches!(unit, Some("image" | "video"));
        let has_token_times =
            stage.vllm_ttft_ms.is_truthy() || stage.vllm_tpot_ms.is_truthy() || stage.vllm_itls_ms.any;
        if either("text") {
            Self::Text(TextOutput::of(stage, values))
        } else if either("audio") {
            Self::Audio {
                output_unit_count: values.int(stage.output_unit_count),
                audio_generated_frames: values.int(stage.audio_generated_frames),
                audio_duration_s: values.float(stage.audio_duration_s),
                ttfp_ms: stage.serving_time_to_first_output_ms.as_measure().filter(|ms| *ms > 0.0),
            }
        } else if unit == Some("stream") {
            Self::Stream {
                output_unit_count: values.int(stage.output_unit_count),
                ttfc_ms: values.float(stage.serving_time_to_first_output_ms),
                tpop_ms: values.float(stage.time_per_output_unit_ms),
                icls_ms: stage.inter_output_latencies_ms.values.clone(),
                inter_chunk_interval_ms: IntervalSummary::of(&stage.inter_output_latencies_ms.values),
            }
        } else if !is_image && has_token_times {
            Self::Text(TextOutput::of(stage, values))
        } else {
            Self::Generic { stage_gen_time_ms: stage.stage_gen_time_ms.as_number() }
        }
    }
}

impl TextOutput {
    pub fn leave_out_list(&mut self) {
        self.itls_ms = Vec::new();
    }

    fn of(stage: &StageSnapshot, values: &mut Values) -> Self {
        Self {
            output_token_count: values.int(stage.num_tokens_out),
            ttft_ms: values.float(stage.vllm_ttft_ms),
            tpot_ms: values.float(stage.vllm_tpot_ms),
            itls_ms: stage.vllm_itls_ms.values.clone(),
            inter_token_interval_ms: IntervalSummary::of(&stage.vllm_itls_ms.values),
        }
    }
}

/// Reads values and counts those that can't be read: they stand as 0.
#[derive(Default)]
struct Values {
    unreadable: u64,
}

impl Values {
    fn int(&mut self, value: Scalar) -> i128 {
        value.to_int().unwrap_or_else(|_| {
            self.unreadable += 1;
            0
        })
    }

    fn float(&mut self, value: Scalar) -> f64 {
        value.to_float().unwrap_or_else(|_| {
            self.unreadable += 1;
            0.0
        })
    }
}
