//! Quantiles of more numbers than are kept: within a stated relative error, the same whatever the order.

use sketches_ddsketch::{Config, DDSketch};

/// Quantiles are off by at most this part of their value.
pub const RELATIVE_ERROR: f64 = 0.005;

/// What is smaller counts as zero: a nanosecond, where numbers are milliseconds.
const SMALLEST: f64 = 1e-6;

/// Enough for every number between [`SMALLEST`] and 1e24, so that no bins are ever collapsed: that would depend on the
/// order.
const BINS: u32 = 8192;

/// Units of the sum in one: a sum of integers is the same in every order, one of floats is not.
const UNITS: f64 = (1u64 << 32) as f64;

/// A sketch of numbers >= 0.
#[derive(Clone)]
pub(super) struct Sketch {
    quantiles: DDSketch,
    sum: i128,
    max: f64,
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sketch").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Sketch {
    pub fn of(values: &[f64]) -> Self {
        let quantiles = DDSketch::new(Config::new(RELATIVE_ERROR, BINS, SMALLEST));
        let mut sketch = Self { quantiles, sum: 0, max: f64::NEG_INFINITY };
        values.iter().for_each(|value| sketch.add(*value));
        sketch
    }

    pub fn add(&mut self, value: f64) {
        self.quantiles.add(value);
        self.sum = self.sum.saturating_add((value * UNITS) as i128);
        self.max = self.max.max(value);
    }

    pub fn merge(&mut self, other: &Self) {
        self.quantiles.merge(&other.quantiles).expect("all sketches are made alike");
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> usize {
        self.quantiles.count()
    }

    pub fn mean(&self) -> f64 {
        self.sum as f64 / UNITS / self.count() as f64
    }

    pub fn max(&self) -> f64 {
        self.max
    }

    /// The value of the nearest rank: of the `ceil(p * n)`th of `n` numbers in ascending order.
    pub fn nearest_rank(&self, p: f64) -> f64 {
        let last = self.count() - 1;
        let index = ((p * self.count() as f64).ceil() as usize).saturating_sub(1).min(last);
        // The sketch takes the integer below `quantile * last`: aimed at the middle, it is this index for certain.
        let quantile = if index == last { 1.0 } else { (index as f64 + 0.5) / last as f64 };
        let value = self.quantiles.quantile(quantile).expect("a quantile between 0 and 1").expect("not empty");
        value.min(self.max)
    }
}
