//! Time as an argument: wall-clock timestamps and the port that reads them.
//!
//! Owns the types only. The one place that asks the operating system is `clock`.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, as Kafka stamps records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// How long after `earlier` this is; zero when it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Seconds since the epoch.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl Timestamp {
    /// Date and time to the second: `2026-12-01 04:54:33 UTC`.
    #[must_use]
    pub fn utc(self) -> String {
        let (day, second) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000) / 1000);
        // Days are counted from March 1st of year 0, so that the leap day is the last of its year.
        let since_march = day + 719_468;
        let (era, of_era) = (since_march.div_euclid(146_097), since_march.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + 400 * era + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(millis(by)))
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

/// Where the shell reads the time. Simulations bring their own.
pub trait Clock {
    /// The wall clock.
    fn now(&self) -> Timestamp;
    /// A clock that never goes back, from an arbitrary start; for deadlines and durations.
    fn monotonic(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_the_calendar_has_it() {
        for (ms, written) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_868_799_000, "2000-02-29 23:59:59 UTC"),
            (1_796_084_323_000, "2026-12-01 00:18:43 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Timestamp(ms).utc(), written);
        }
    }

    #[test]
    fn a_span_to_the_past_is_zero() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
        assert_eq!(Timestamp(9).since(Timestamp(5)), Duration::from_millis(4));
    }

    #[test]
    fn a_deadline_past_the_end_of_time_saturates() {
        assert_eq!(Timestamp(i64::MAX) + Duration::from_secs(1), Timestamp(i64::MAX));
    }
}
