//! Stage metrics: each engine stage's latest snapshot, reduced to the values that the bundle is made of.

use jiter::JiterResult;
use serde::{Deserialize, Serialize};

use super::json::{Raw, Reader};
use super::scalar::Scalar;
use super::text::{cut, unescape};

/// Bounds of what is kept of one `stage_metrics` object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StageLimits {
    pub stages: usize,
    pub interval_values: usize,
    pub text_bytes: usize,
}

/// One `stage_metrics` object: its entries that are objects, in their order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StageMetrics {
    pub stages: Vec<(String, StageSnapshot)>,
    /// A limit was hit.
    pub truncated: bool,
}

/// What one stage said of itself last (contract.md section 3, `stages`).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StageSnapshot {
    /// Non-empty texts only.
    pub final_output_type: Option<String>,
    pub output_unit_type: Option<String>,
    pub num_tokens_out: Scalar,
    pub vllm_ttft_ms: Scalar,
    pub vllm_tpot_ms: Scalar,
    pub vllm_itls_ms: Intervals,
    pub output_unit_count: Scalar,
    pub audio_generated_frames: Scalar,
    pub audio_duration_s: Scalar,
    pub serving_time_to_first_output_ms: Scalar,
    pub time_per_output_unit_ms: Scalar,
    pub inter_output_latencies_ms: Intervals,
    pub stage_gen_time_ms: Scalar,
}

/// A list of intervals.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Intervals {
    /// The list's numbers and booleans, in milliseconds, finite or not.
    pub values: Vec<f64>,
    /// It was a list and had an element, of whatever type.
    pub any: bool,
}

impl StageMetrics {
    /// Reads a `stage_metrics` object that was found in an event.
    #[must_use]
    pub fn read(json: &[u8], limits: StageLimits) -> Self {
        let mut metrics = Self::default();
        // The event's own reading has accepted this text already, so it can't fail; what was read stays.
        let _ = metrics.read_stages(json, limits);
        metrics.stages.shrink_to_fit();
        metrics
    }

    fn read_stages(&mut self, json: &[u8], mut limits: StageLimits) -> JiterResult<()> {
        Reader::new(json).object(|reader, key| {
            let (id, was_cut) = cut(&key, limits.text_bytes);
            let known = self.stages.iter().position(|(known, _)| known == id);
            if known.is_none() && (was_cut || self.stages.len() >= limits.stages) {
                self.truncated = true;
                return reader.value().map(drop);
            }
            let mut stage = StageSnapshot::default();
            let mut truncated = false;
            let is_object = stage.read(reader, limits, &mut truncated)?;
            self.truncated |= truncated;
            // The lists of one object share the limit.
            limits.interval_values -= stage.interval_values();
            match (known, is_object) {
                (Some(at), true) => self.stages[at].1 = stage,
                (None, true) => self.stages.push((id.to_owned(), stage)),
                // The last of equal keys rules, and it is no snapshot.
                (Some(at), false) => drop(self.stages.remove(at)),
                (None, false) => {}
            }
            Ok(())
        })?;
        Ok(())
    }
}

impl StageSnapshot {
    /// How many interval values it holds.
    #[must_use]
    pub fn interval_values(&self) -> usize {
        self.vllm_itls_ms.values.len() + self.inter_output_latencies_ms.values.len()
    }

    /// Bytes that it takes beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let labels = [&self.final_output_type, &self.output_unit_type].into_iter().flatten();
        labels.map(String::len).sum::<usize>() + self.interval_values() * size_of::<f64>()
    }

    fn read(&mut self, reader: &mut Reader<'_>, limits: StageLimits, truncated: &mut bool) -> JiterResult<bool> {
        reader.object(|reader, key| {
            let scalar = match &*key {
                "num_tokens_out" => &mut self.num_tokens_out,
                "vllm_ttft_ms" => &mut self.vllm_ttft_ms,
                "vllm_tpot_ms" => &mut self.vllm_tpot_ms,
                "output_unit_count" => &mut self.output_unit_count,
                "audio_generated_frames" => &mut self.audio_generated_frames,
                "audio_duration_s" => &mut self.audio_duration_s,
                "serving_time_to_first_output_ms" => &mut self.serving_time_to_first_output_ms,
                "time_per_output_unit_ms" => &mut self.time_per_output_unit_ms,
                "stage_gen_time_ms" => &mut self.stage_gen_time_ms,
                "vllm_itls_ms" => {
                    let room = limits.interval_values - self.inter_output_latencies_ms.values.len();
                    return self.vllm_itls_ms.read(reader, room, truncated);
                }
                "inter_output_latencies_ms" => {
                    let room = limits.interval_values - self.vllm_itls_ms.values.len();
                    return self.inter_output_latencies_ms.read(reader, room, truncated);
                }
                "final_output_type" | "output_unit_type" => {
                    let label = match reader.value()? {
                        Raw::String(text) if !text.is_empty() => {
                            let text = unescape(text);
                            let (label, was_cut) = cut(&text, limits.text_bytes);
                            *truncated |= was_cut;
                            Some(label.to_owned())
                        }
                        _ => None,
                    };
                    if key == "final_output_type" {
                        self.final_output_type = label;
                    } else {
                        self.output_unit_type = label;
                    }
                    return Ok(());
                }
                _ => return reader.value().map(drop),
            };
            *scalar = Scalar::read(reader.value()?);
            Ok(())
        })
    }
}

impl Intervals {
    fn read(&mut self, reader: &mut Reader<'_>, limit: usize, truncated: &mut bool) -> JiterResult<()> {
        *self = Self::default();
        reader.array(|value| {
            self.any = true;
            match Scalar::read(value).as_number_or_bool() {
                Some(_) if self.values.len() >= limit => *truncated = true,
                Some(number) => self.values.push(number),
                None => {}
            }
        })?;
        self.values.shrink_to_fit();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StageLimits = StageLimits { stages: 3, interval_values: 4, text_bytes: 8 };

    fn read(json: &str) -> StageMetrics {
        StageMetrics::read(json.as_bytes(), LIMITS)
    }

    #[test]
    fn entries_that_are_no_objects_are_no_snapshots() {
        assert_eq!(read(r#"{"0":5,"1":[],"2":null}"#), StageMetrics::default());
        assert_eq!(read(r#"{"0":{},"0":5}"#), StageMetrics::default());
    }

    #[test]
    fn the_last_of_equal_keys_rules() {
        let metrics = read(r#"{"0":{"num_tokens_out":1},"0":{"vllm_ttft_ms":2,"vllm_ttft_ms":3.5}}"#);
        let stage = StageSnapshot { vllm_ttft_ms: Scalar::Float(3.5), ..StageSnapshot::default() };
        assert_eq!(metrics.stages, [("0".to_owned(), stage)]);
    }

    #[test]
    fn an_interval_list_keeps_numbers_and_booleans() {
        let metrics = read(r#"{"0":{"vllm_itls_ms":[1,true,"x",null,2.5,-4,[3]],"inter_output_latencies_ms":"no"}}"#);
        let stage = &metrics.stages[0].1;
        assert_eq!(stage.vllm_itls_ms, Intervals { values: vec![1.0, 1.0, 2.5, -4.0], any: true });
        assert_eq!(stage.inter_output_latencies_ms, Intervals::default());
        assert!(!metrics.truncated);
    }

    #[test]
    fn limits_cut_and_say_so() {
        assert!(read(r#"{"0":{"vllm_itls_ms":[1,2,3,4,5]}}"#).truncated);
        let shared = read(r#"{"0":{"vllm_itls_ms":[1,2],"inter_output_latencies_ms":[3]},"1":{"vllm_itls_ms":[4,5]}}"#);
        let values: Vec<_> = shared.stages.iter().map(|(_, stage)| stage.interval_values()).collect();
        assert_eq!((values, shared.truncated), (vec![3, 1], true));
        assert!(read(r#"{"0":{"final_output_type":"123456789"}}"#).truncated);
        let many = read(r#"{"0":{},"1":{},"2":{},"3":{}}"#);
        assert_eq!((many.stages.len(), many.truncated), (3, true));
    }
}
