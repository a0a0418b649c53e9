//! `rate_limit`: so many requests at once, and one more each interval.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A bucket of `burst` requests that fills up by one each `interval`.
#[derive(Debug)]
pub(super) struct Rate {
    interval: Duration,
    burst: u32,
    /// When the bucket is full again.
    full_at: Mutex<Duration>,
}

impl Rate {
    pub fn new((interval, burst): (Duration, u32)) -> Self {
        Self { interval, burst, full_at: Mutex::default() }
    }

    pub fn same(&self, other: &Self) -> bool {
        (self.interval, self.burst) == (other.interval, other.burst)
    }

    /// Takes one request out of the bucket, if there is one left at this monotonic time.
    pub fn admit(&self, now: Duration) -> bool {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*full_at).max(now).saturating_add(self.interval);
        let admitted = next - now <= self.interval.saturating_mul(self.burst);
        if admitted {
            *full_at = next;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_admitted_and_then_one_an_interval() {
        let rate = Rate::new((Duration::from_secs(2), 3));
        let admitted = |seconds| rate.admit(Duration::from_secs(seconds));
        assert_eq!([10, 10, 10, 10, 11, 12, 12].map(admitted), [true, true, true, false, false, true, false]);
        assert_eq!([100; 4].map(admitted), [true, true, true, false]);
    }
}
