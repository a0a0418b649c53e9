//! How long a commit that failed waits before it is tried again: what fails for good, such as a permission that was taken
//! away, must not keep the broker and the log busy.

use std::time::Duration;

/// The pause after the second failure in a row; there is none after the first, which is mostly the last.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Failures in a row, and until when nothing is tried again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Duration,
}

impl Backoff {
    /// Notes a failure at `now` and returns the pause after it.
    pub(super) fn failed(&mut self, now: Duration) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = if self.failures == 0 { Duration::ZERO } else { (FIRST * (1 << doublings)).min(LONGEST) };
        self.failures = self.failures.saturating_add(1);
        self.until = now + pause;
        pause
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_five_seconds_and_a_success_ends_it() {
        let mut backoff = Backoff::default();
        let now = Duration::from_secs(7);
        assert!(backoff.is_over(now));
        let pauses: Vec<_> = (0..10).map(|_| backoff.failed(now).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        assert!((0..100).all(|_| backoff.failed(now) == LONGEST));
        assert!(!backoff.is_over(now + LONGEST / 2) && backoff.is_over(now + LONGEST));
        backoff.succeeded();
        assert!(backoff.is_over(now));
        assert_eq!(backoff.failed(now), Duration::ZERO);
    }
}
