//! The summary of a stage's intervals (contract.md section 3).

use serde::{Deserialize, Serialize};

use crate::numeric::{mean, nearest_rank, r3};

/// `{count, mean, p50, p95, max}` in milliseconds; all zero when empty.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct IntervalSummary {
    pub count: usize,
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

impl IntervalSummary {
    /// Summarises the finite values >= 0, each rounded to 3 digits before it is sorted and averaged.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut kept: Vec<f64> = values.iter().filter(|v| v.is_finite() && **v >= 0.0).map(|v| r3(*v)).collect();
        kept.sort_unstable_by(f64::total_cmp);
        let Some(max) = kept.last().copied() else { return Self::default() };
        Self {
            count: kept.len(),
            mean: r3(mean(&kept)),
            p50: nearest_rank(&kept, 0.5),
            p95: nearest_rank(&kept, 0.95),
            max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_zero_and_not_finite_are_left_out() {
        let summary = IntervalSummary::of(&[1.0, 1.0, 2.5, -4.0, f64::NAN, f64::INFINITY]);
        assert_eq!(summary, IntervalSummary { count: 3, mean: 1.5, p50: 1.0, p95: 2.5, max: 2.5 });
    }

    #[test]
    fn nothing_to_summarise_is_all_zero() {
        assert_eq!(IntervalSummary::of(&[-1.0]), IntervalSummary::default());
    }
}
