//! The only `now()` of the program.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Clock, Timestamp};

/// The operating system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic reading starts at zero.
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

/// The time as the standard library has it; one before the epoch is the epoch.
#[must_use]
pub fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + at.since(Timestamp(0))
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
