//! `{count, mean, p50, p99}` over a set of numbers (contract.md section 4).

use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use crate::numeric::{mean, nearest_rank, round};

/// A summary by nearest rank, its mean by compensated summation over the sorted values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    pub count: usize,
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
}

/// A summary for those who watch: more quantiles, and whether they are exact.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub count: usize,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
    /// There were too many numbers to keep: the quantiles are off by up to [`RELATIVE_ERROR`](super::RELATIVE_ERROR) of
    /// their value. Count, mean and maximum are exact.
    pub approximate: bool,
}

/// Numbers >= 0 to be summarised: kept exactly up to a bound, then sketched.
///
/// The summary does not depend on the order in which they came. Asking for it sorts what came since the last time, so
/// asking often is cheap.
#[derive(Clone, Debug)]
pub struct Samples {
    kept: Kept,
    bound: usize,
}

#[derive(Clone, Debug)]
enum Kept {
    All { values: Vec<f64>, sorted: bool },
    Sketch(Box<Sketch>),
}

impl Samples {
    /// Keeps up to `bound` numbers, and a sketch of more.
    #[must_use]
    pub fn bounded(bound: usize) -> Self {
        Self { kept: Kept::All { values: Vec::new(), sorted: true }, bound }
    }

    /// Adds a value; those that are not finite are left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        match &mut self.kept {
            Kept::All { values, sorted } => {
                values.push(value);
                *sorted = false;
                self.keep_bound();
            }
            Kept::Sketch(sketch) => sketch.add(value),
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.kept, &other.kept) {
            (Kept::All { values, sorted }, Kept::All { values: others, .. }) => {
                values.extend_from_slice(others);
                *sorted = false;
                self.keep_bound();
            }
            (Kept::All { values, .. }, Kept::Sketch(others)) => {
                let mut sketch = Sketch::of(values);
                sketch.merge(others);
                self.kept = Kept::Sketch(Box::new(sketch));
            }
            (Kept::Sketch(sketch), Kept::All { values, .. }) => values.iter().for_each(|value| sketch.add(*value)),
            (Kept::Sketch(sketch), Kept::Sketch(others)) => sketch.merge(others),
        }
    }

    fn keep_bound(&mut self) {
        if let Kept::All { values, .. } = &self.kept
            && values.len() > self.bound
        {
            self.kept = Kept::Sketch(Box::new(Sketch::of(values)));
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.kept {
            Kept::All { values, .. } => values.len(),
            Kept::Sketch(sketch) => sketch.count(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The figures, rounded to `digits` decimals; `None` when there are no values.
    pub fn figures(&mut self, digits: usize) -> Option<Figures> {
        if self.is_empty() {
            return None;
        }
        let exact = |x| round(x, digits);
        Some(match &mut self.kept {
            Kept::All { values, sorted } => {
                if !*sorted {
                    // A stable sort finds the runs that are sorted already.
                    values.sort_by(f64::total_cmp);
                    *sorted = true;
                }
                let rank = |p| round(nearest_rank(values, p), digits);
                Figures {
                    count: values.len(),
                    mean: exact(mean(values)),
                    p50: rank(0.5),
                    p90: rank(0.9),
                    p99: rank(0.99),
                    max: exact(values[values.len() - 1]),
                    approximate: false,
                }
            }
            Kept::Sketch(sketch) => {
                let rank = |p| round(sketch.nearest_rank(p), digits);
                Figures {
                    count: sketch.count(),
                    mean: exact(sketch.mean()),
                    p50: rank(0.5),
                    p90: rank(0.9),
                    p99: rank(0.99),
                    max: exact(sketch.max()),
                    approximate: true,
                }
            }
        })
    }

    /// The reference's summary, rounded to `digits` decimals; `None` when there are no values.
    pub fn summary(&mut self, digits: usize) -> Option<Distribution> {
        self.figures(digits).map(Distribution::from)
    }
}

/// Keeps everything.
impl Default for Samples {
    fn default() -> Self {
        Self::bounded(usize::MAX)
    }
}

impl From<Figures> for Distribution {
    fn from(Figures { count, mean, p50, p99, .. }: Figures) -> Self {
        Self { count, mean, p50, p99 }
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

    /// Skewed as latencies are, from a microsecond to minutes.
    fn latencies(count: usize) -> Vec<f64> {
        (0..count).map(|i| 1e-3 * 1.000_02_f64.powi((i * 7_919 % count) as i32)).collect()
    }

    #[test]
    fn past_the_bound_quantiles_are_within_the_stated_error_and_all_else_is_exact() {
        let values = latencies(500_000);
        let mut exact: Samples = values.iter().copied().collect();
        let mut sketched = Samples::bounded(100_000);
        values.iter().for_each(|value| sketched.add(*value));
        let (exact, sketched) = (exact.figures(6).expect("values"), sketched.figures(6).expect("values"));
        assert!(sketched.approximate && !exact.approximate);
        assert_eq!((exact.count, exact.max), (sketched.count, sketched.max));
        assert!((exact.mean - sketched.mean).abs() <= 1e-6, "{} {}", exact.mean, sketched.mean);
        for (exact, sketched) in [(exact.p50, sketched.p50), (exact.p90, sketched.p90), (exact.p99, sketched.p99)] {
            let error = (exact - sketched).abs() / exact;
            assert!(error <= super::super::RELATIVE_ERROR, "{exact} became {sketched}: off by {error}");
        }
    }

    #[test]
    fn a_summary_does_not_depend_on_the_order_nor_on_how_parts_were_merged() {
        let values = latencies(3_000);
        for bound in [100, 1_000, 2_000, 3_000] {
            let mut whole = Samples::bounded(bound);
            values.iter().rev().for_each(|value| whole.add(*value));
            for parts in [1, 2, 7] {
                let mut merged = Samples::bounded(bound);
                for part in 0..parts {
                    let mut samples = Samples::bounded(bound);
                    values.iter().skip(part).step_by(parts).for_each(|value| samples.add(*value));
                    merged.merge(&samples);
                }
                assert_eq!(merged.figures(3), whole.figures(3), "bound {bound}, {parts} parts");
            }
        }
    }

    #[test]
    fn the_bound_is_the_last_count_that_is_exact() {
        let mut samples = Samples::bounded(2);
        samples.add(1.0);
        samples.add(2.0);
        assert_eq!(samples.figures(3).map(|f| (f.p50, f.approximate)), Some((1.0, false)));
        samples.add(0.0);
        assert_eq!(samples.figures(3).map(|f| (f.count, f.mean, f.max, f.approximate)), Some((3, 1.0, 2.0, true)));
    }
}
