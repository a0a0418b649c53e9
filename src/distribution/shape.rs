//! The shape of a distribution: how many numbers lie where, in bins that are the same for all.

use std::collections::BTreeMap;

use serde::Serialize;

/// Bins of a power of ten: each is 15 % wider than the one before.
const BINS_A_DECADE: f64 = 16.0;

/// What is smaller lies in the first bin, which begins at 0: a microsecond, where numbers are milliseconds.
const SMALLEST: f64 = 1e-3;

/// Counts of numbers >= 0 in logarithmic bins. Exact, mergeable, and the same in every order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape(BTreeMap<i16, u64>);

/// How many numbers lie in `from <= x < to`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bin {
    pub from: f64,
    pub to: f64,
    pub count: u64,
}

impl Shape {
    /// Adds a number; those that are not finite are left out.
    pub fn add(&mut self, value: f64) {
        if value.is_finite() {
            *self.0.entry(bin_of(value)).or_default() += 1;
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in &other.0 {
            *self.0.entry(*bin).or_default() += count;
        }
    }

    /// The bins that hold something, ascending.
    #[must_use]
    pub fn bins(&self) -> Vec<Bin> {
        self.0.iter().map(|(bin, count)| Bin { from: begin_of(*bin), to: begin_of(bin + 1), count: *count }).collect()
    }
}

/// Finite numbers reach from -48 to 4,933.
fn bin_of(value: f64) -> i16 {
    let bin = (value.max(SMALLEST).log10() * BINS_A_DECADE).floor() as i16;
    // The logarithm can be off by its last digit.
    if value >= begin_of(bin + 1) { bin + 1 } else { bin }
}

fn begin_of(bin: i16) -> f64 {
    let begin = 10_f64.powf(f64::from(bin) / BINS_A_DECADE);
    if begin > SMALLEST { begin } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_the_bin_that_holds_it() {
        let mut shape = Shape::default();
        for i in 0..10_000 {
            let value = 1e-9 * 1.004_f64.powi(i);
            shape.add(value);
            let bin = bin_of(value);
            assert!(begin_of(bin) <= value && value < begin_of(bin + 1), "{value} in {bin}");
        }
        for value in [0.0, 1.0, 10.0, 100.0, 1e300, f64::MAX / 2.0] {
            let bin = bin_of(value);
            assert!(begin_of(bin) <= value && value < begin_of(bin + 1), "{value} in {bin}");
        }
        assert_eq!(shape.bins().iter().map(|bin| bin.count).sum::<u64>(), 10_000);
        assert_eq!(shape.bins()[0].from, 0.0);
        assert!(shape.bins().windows(2).all(|pair| pair[0].to <= pair[1].from));
    }

    #[test]
    fn parts_put_together_are_the_whole() {
        let (mut even, mut odd, mut whole) = (Shape::default(), Shape::default(), Shape::default());
        for i in 0..1_000 {
            let value = 0.7 * f64::from(i);
            if i % 2 == 0 {
                even.add(value)
            } else {
                odd.add(value)
            }
            whole.add(value);
        }
        odd.merge(&even);
        assert_eq!(odd, whole);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut shape = Shape::default();
        shape.add(f64::NAN);
        shape.add(f64::INFINITY);
        assert_eq!(shape.bins(), []);
    }
}
