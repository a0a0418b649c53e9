//! `{count, mean, p50, p99}` over a set of numbers (contract.md section 4).

use serde::{Deserialize, Serialize};

use crate::numeric::{mean, nearest_rank, round};

/// A summary by nearest rank, its mean by compensated summation over the sorted values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    pub count: usize,
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
}

/// Numbers to be summarised, kept exactly.
///
/// Asking for a summary sorts what came since the last time, so asking often is cheap.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    values: Vec<f64>,
    sorted: bool,
}

impl Samples {
    /// Adds a value; those that are not finite are left out.
    pub fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.values.push(value);
            self.sorted = false;
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The summary, rounded to `digits` decimals; `None` when there are no values.
    pub fn summary(&mut self, digits: usize) -> Option<Distribution> {
        if self.values.is_empty() {
            return None;
        }
        if !self.sorted {
            // A stable sort finds the run that is sorted already.
            self.values.sort_by(f64::total_cmp);
            self.sorted = true;
        }
        Some(Distribution {
            count: self.values.len(),
            mean: round(mean(&self.values), digits),
            p50: round(nearest_rank(&self.values, 0.5), digits),
            p99: round(nearest_rank(&self.values, 0.99), digits),
        })
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut samples = Self::default();
        values.into_iter().for_each(|value| samples.add(value));
        samples
    }
}

impl Distribution {
    /// Summarises values to 3 digits (milliseconds); `None` when none is finite.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().collect::<Samples>().summary(3)
    }

    /// Summarises real-time factors, to 6 digits; `None` when none is finite.
    pub fn of_rtf(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().collect::<Samples>().summary(6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Distribution::of([]), None);
        assert_eq!(Distribution::of([f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn the_summary_is_by_nearest_rank() {
        let expected = Distribution { count: 4, mean: 2.5, p50: 2.0, p99: 4.0 };
        assert_eq!(Distribution::of([4.0, 1.0, 3.0, 2.0]), Some(expected));
    }

    #[test]
    fn real_time_factors_keep_six_digits() {
        assert_eq!(Distribution::of_rtf([0.123_456_7]).map(|d| d.p50), Some(0.123_457));
        assert_eq!(Distribution::of([0.123_456_7]).map(|d| d.p50), Some(0.123));
    }

    #[test]
    fn values_added_after_a_summary_are_in_the_next() {
        let mut samples: Samples = [3.0, 1.0].into_iter().collect();
        assert_eq!(samples.summary(3).map(|d| d.count), Some(2));
        samples.add(2.0);
        assert_eq!(samples.summary(3), Some(Distribution { count: 3, mean: 2.0, p50: 2.0, p99: 3.0 }));
    }
}
