//! A task's own time (contract.md section 7).

use std::time::Duration;

use crate::time::Timestamp;

/// The largest record timestamp seen, bounded by the wall clock, moved on while there is nothing to read.
///
/// So old data replays at its own pace, one wrong timestamp ends nobody else's session, and the last session of a topic
/// that falls silent still ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskClock {
    now: Option<Timestamp>,
}

impl TaskClock {
    /// A clock that stands where a snapshot left it.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now: Some(now) }
    }

    /// The time; `None` before the first record.
    #[must_use]
    pub fn now(self) -> Option<Timestamp> {
        self.now
    }

    /// Takes a record's timestamp, which counts up to `tolerance` past the wall clock.
    pub fn observe(&mut self, timestamp: Option<Timestamp>, wall: Timestamp, tolerance: Duration) -> Timestamp {
        let seen = timestamp.map_or_else(|| self.now.unwrap_or(wall), |timestamp| timestamp.min(wall + tolerance));
        let now = self.now.map_or(seen, |now| now.max(seen));
        self.now = Some(now);
        now
    }

    /// Lets `elapsed` pass; `None` before the first record.
    pub fn advance(&mut self, elapsed: Duration) -> Option<Timestamp> {
        self.now = self.now.map(|now| now + elapsed);
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Duration = Duration::from_secs(300);
    const WALL: Timestamp = Timestamp(1_000_000);

    #[test]
    fn the_largest_timestamp_rules() {
        let mut clock = TaskClock::default();
        assert_eq!(clock.observe(Some(Timestamp(500)), WALL, TOLERANCE), Timestamp(500));
        assert_eq!(clock.observe(Some(Timestamp(400)), WALL, TOLERANCE), Timestamp(500));
        assert_eq!(clock.observe(None, WALL, TOLERANCE), Timestamp(500));
    }

    #[test]
    fn a_timestamp_from_the_future_is_held_at_the_wall_clock() {
        let mut clock = TaskClock::default();
        assert_eq!(clock.observe(Some(Timestamp(i64::MAX)), WALL, TOLERANCE), Timestamp(1_300_000));
    }

    #[test]
    fn silence_moves_time_on_once_there_is_any() {
        let mut clock = TaskClock::default();
        assert_eq!(clock.advance(Duration::from_secs(1)), None);
        clock.observe(Some(Timestamp(500)), WALL, TOLERANCE);
        assert_eq!(clock.advance(Duration::from_secs(1)), Some(Timestamp(1500)));
    }
}
