//! A session's receive times: how long it lasted by them, and whether they can be subtracted (contract.md section 1.4).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::source::{Clocks, ReceiveClock, SessionClock};
use crate::numeric::r3;

/// A clock that goes back by more between two events of a session is not steady.
const STEADY_BACK_S: f64 = 60.0;

/// What is known of the receive times of all accepted events. What is not known is not finite: every session has this.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Received {
    smallest: f64,
    largest: f64,
    /// The last one of each clock.
    last: [f64; 2],
    pub(super) clocks: Clocks,
    is_unsteady: bool,
}

/// A receive time, its clock, and the event's place in the session's order of arrival.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds of the clock.
    pub at: f64,
    pub ordinal: u32,
    pub clock: ReceiveClock,
}

impl Moment {
    /// Seconds since `start`; `None` where that is of another clock.
    #[must_use]
    pub fn since(self, start: Self) -> Option<f64> {
        (self.clock == start.clock).then_some(self.at - start.at)
    }
}

impl Received {
    /// Those of a session that opens with one at `at`.
    #[must_use]
    pub fn first(at: f64) -> Self {
        Self::restored(Some((at, at)), Clocks::default())
    }

    /// Those of a session that an earlier release began: `span` is the smallest and the largest, where it knew them.
    #[must_use]
    pub(super) fn restored(span: Option<(f64, f64)>, clocks: Clocks) -> Self {
        let (smallest, largest) = span.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        // Which of its times were of which clock is not known then: no figure is made of any.
        let is_unsteady = clocks.name() == Some(SessionClock::Mixed);
        Self { smallest, largest, last: [f64::INFINITY; 2], clocks, is_unsteady }
    }

    /// The smallest and the largest one; `None` where an earlier release saw the first events.
    #[must_use]
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        Some((self.smallest, self.largest)).filter(|(smallest, _)| smallest.is_finite())
    }

    /// Takes the next event's.
    pub fn take(&mut self, at: f64, clock: ReceiveClock, idle_timeout: Duration) {
        self.smallest = self.smallest.min(at);
        self.largest = self.largest.max(at);
        self.clocks = self.clocks.and(clock);
        let last = std::mem::replace(&mut self.last[clock as usize], at);
        let is_steady = (-STEADY_BACK_S..=idle_timeout.as_secs_f64()).contains(&(at - last));
        self.is_unsteady |= last.is_finite() && !is_steady;
    }

    /// What the bundle says of the clocks.
    #[must_use]
    pub fn clock(&self) -> SessionClock {
        if self.is_unsteady { SessionClock::Unsteady } else { self.clocks.name().unwrap_or(SessionClock::Mixed) }
    }

    /// First to last event in milliseconds; `None` where that can't be told.
    #[must_use]
    pub fn duration_ms(&self) -> Option<f64> {
        let is_one_clock = matches!(self.clock(), SessionClock::ClientMonotonic | SessionClock::KafkaTimestamp);
        self.span().filter(|_| is_one_clock).map(|(first, last)| r3((last - first) * 1000.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReceiveClock::{ClientMonotonic, KafkaTimestamp};

    fn clock_of(times: &[(f64, ReceiveClock)]) -> SessionClock {
        let mut received = Received::first(0.0);
        for (at, clock) in times {
            received.take(*at, *clock, Duration::from_secs(360));
        }
        received.clock()
    }

    #[test]
    fn a_clock_is_steady_up_to_a_minute_back_and_the_idle_timeout_ahead() {
        assert_eq!(clock_of(&[(100.0, ClientMonotonic), (40.0, ClientMonotonic)]), SessionClock::ClientMonotonic);
        assert_eq!(clock_of(&[(100.0, ClientMonotonic), (39.9, ClientMonotonic)]), SessionClock::Unsteady);
        assert_eq!(clock_of(&[(100.0, KafkaTimestamp), (460.0, KafkaTimestamp)]), SessionClock::KafkaTimestamp);
        assert_eq!(clock_of(&[(100.0, KafkaTimestamp), (460.1, KafkaTimestamp)]), SessionClock::Unsteady);
    }

    #[test]
    fn each_clock_is_compared_with_itself() {
        let mixed = [(5.0, ClientMonotonic), (1.7e9, KafkaTimestamp), (6.0, ClientMonotonic)];
        assert_eq!(clock_of(&mixed), SessionClock::Mixed);
        assert_eq!(clock_of(&[&mixed[..], &[(1.6e9, KafkaTimestamp)]].concat()), SessionClock::Unsteady);
    }

    #[test]
    fn times_of_two_clocks_of_an_earlier_release_fit_together_no_more() {
        let both = Clocks::from(ClientMonotonic).and(KafkaTimestamp);
        assert_eq!(Received::restored(Some((5.0, 1.7e9)), both).clock(), SessionClock::Unsteady);
        assert_eq!(Received::restored(None, ClientMonotonic.into()).clock(), SessionClock::ClientMonotonic);
    }

    #[test]
    fn a_duration_needs_one_steady_clock() {
        let mut received = Received::first(5.0);
        for at in [5.0, 7.5, 4.0] {
            received.take(at, ClientMonotonic, Duration::from_secs(360));
        }
        assert_eq!(received.duration_ms(), Some(3500.0));
        received.take(5.0, KafkaTimestamp, Duration::from_secs(360));
        assert_eq!(received.duration_ms(), None);
    }
}
