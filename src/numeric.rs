//! Numbers as the reference rounds, sums and ranks them: CPython's `round`, `sum` and nearest rank. And as people read them.
//!
//! Pure arithmetic on `f64`; knows nothing of sessions or metrics.

/// Rounds to `digits` decimals as Python's `round(x, digits)`: to the nearest decimal of the exact binary value, ties to even.
///
/// Non-finite values are returned as they are.
#[must_use]
pub fn round(x: f64, digits: usize) -> f64 {
    if !x.is_finite() {
        return x;
    }
    format!("{x:.digits$}").parse().expect("a formatted number parses")
}

/// `round(x, 3)`: milliseconds to the microsecond.
#[must_use]
pub fn r3(x: f64) -> f64 {
    round(x, 3)
}

/// `round(x, 6)`: real-time factors.
#[must_use]
pub fn r6(x: f64) -> f64 {
    round(x, 6)
}

/// Milliseconds as seconds: the double nearest to the decimal that `ms` prints as, so that both print the same digits.
///
/// A division is off where `ms` itself is no exact decimal: 277.636 / 1000 prints as 0.27763600000000005. Non-finite values
/// are returned as they are.
#[must_use]
pub fn seconds(ms: f64) -> f64 {
    format!("{ms}e-3").parse().unwrap_or(ms)
}

/// Neumaier's compensated sum, as CPython >= 3.12 sums floats.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompensatedSum {
    sum: f64,
    compensation: f64,
}

impl CompensatedSum {
    /// Adds one term.
    pub fn add(&mut self, x: f64) {
        let t = self.sum + x;
        self.compensation += if self.sum.abs() >= x.abs() { (self.sum - t) + x } else { (x - t) + self.sum };
        self.sum = t;
    }

    /// The sum so far.
    #[must_use]
    pub fn total(self) -> f64 {
        // CPython leaves an infinite or NaN sum as it is.
        if self.compensation.is_finite() { self.sum + self.compensation } else { self.sum }
    }
}

impl FromIterator<f64> for CompensatedSum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|x| sum.add(x));
        sum
    }
}

/// The nearest-rank quantile of an ascending, non-empty slice: index `max(0, ceil(p * n) - 1)`.
#[must_use]
pub fn nearest_rank(sorted: &[f64], p: f64) -> f64 {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted[rank.saturating_sub(1).min(sorted.len() - 1)]
}

/// The mean of an ascending, non-empty slice, by compensated summation.
#[must_use]
pub fn mean(sorted: &[f64]) -> f64 {
    sorted.iter().copied().collect::<CompensatedSum>().total() / sorted.len() as f64
}

/// A number to three digits, for people to look at: `3,140`, `0.651`.
#[must_use]
pub fn significant(x: f64) -> String {
    let rounded: f64 = format!("{x:.2e}").parse().expect("a formatted number parses");
    if (1e3..1e15).contains(&rounded) { grouped(rounded as u64) } else { rounded.to_string() }
}

/// A count with a comma before every three digits.
#[must_use]
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits are ASCII")).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_three_digits_and_counts_in_groups() {
        let shown = [0.0, 0.650_754, 1.0, 9.996, 312.25, 999.6, 3_143.682, 1e-7].map(significant);
        assert_eq!(shown, ["0", "0.651", "1", "10", "312", "1,000", "3,140", "0.0000001"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(significant), ["NaN", "inf"]);
    }

    #[test]
    fn rounding_agrees_with_python() {
        // (x, round(x, 3)) as CPython 3.13 prints them.
        for (x, expected) in [
            (2.6745, 2.675),
            (2.0005, 2.001),
            (0.0005, 0.001),
            (1.0005, 1.0),
            (0.5, 0.5),
            (-1.2345, -1.234),
            (1e22, 1e22),
            (123_456_789.123_45, 123_456_789.123),
        ] {
            assert_eq!(r3(x), expected, "round({x}, 3)");
        }
        assert_eq!(r6(0.123_456_5), 0.123_456);
    }

    #[test]
    fn non_finite_values_pass_through_rounding() {
        assert!(r3(f64::NAN).is_nan());
        assert_eq!(r3(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn seconds_have_the_digits_of_their_milliseconds() {
        assert_eq!(seconds(277.636).to_string(), "0.277636");
        for microseconds in (0..20_000_000u64).step_by(373) {
            let (whole, fraction) = (microseconds / 1_000_000, microseconds % 1_000_000);
            let expected = format!("{whole}.{fraction:06}").parse();
            assert_eq!(Ok(seconds(r3(microseconds as f64 / 1000.0))), expected, "{microseconds}");
        }
        for ms in [0.0, -0.5, 1e-7, 341.019_123_4, 1e21] {
            let digits = |x: f64| format!("{x:e}").split('e').next().map(str::to_owned);
            assert_eq!(digits(seconds(ms)), digits(ms), "{ms}");
        }
        assert!(seconds(f64::NAN).is_nan());
        assert_eq!(seconds(f64::NEG_INFINITY), f64::NEG_INFINITY);
    }

    #[test]
    fn the_sum_keeps_what_plain_addition_loses() {
        let sum: CompensatedSum = [1.0, 1e100, 1.0, -1e100].into_iter().collect();
        assert_eq!(sum.total(), 2.0);
        let tenths: CompensatedSum = std::iter::repeat_n(0.1, 10).collect();
        assert_eq!(tenths.total(), 1.0);
    }

    #[test]
    fn nearest_rank_takes_the_value_at_or_above_the_rank() {
        let v = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(nearest_rank(&v, 0.5), 2.0);
        assert_eq!(nearest_rank(&v, 0.51), 3.0);
        assert_eq!(nearest_rank(&v, 0.99), 4.0);
        assert_eq!(nearest_rank(&v, 0.0), 1.0);
        assert_eq!(nearest_rank(&[7.0], 0.99), 7.0);
    }
}
