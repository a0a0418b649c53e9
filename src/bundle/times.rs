//! Differences of receive times, as far as they are figures (contract.md section 1.4).

use crate::collector::{Chosen, Moment, SessionClock, SessionCollector};

/// The receive times of one session.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    start: Moment,
    /// What they are where they are not of one steady clock.
    pub fault: Option<SessionClock>,
}

impl Times {
    /// Those of a session with this stream start.
    pub fn of(session: &SessionCollector, start: Chosen) -> Self {
        let start = Moment { at: start.at, ordinal: 0, clock: start.clock };
        Self { start, fault: session.clock_fault() }
    }

    /// Seconds from one to the other; `None` where that is no figure.
    pub fn between(self, one: Moment, other: Moment) -> Option<f64> {
        other.since(one).filter(|_| self.fault.is_none())
    }

    /// Seconds from the stream start on; `None` where that is no figure.
    pub fn since_start(self, moment: Moment) -> Option<f64> {
        self.between(self.start, moment)
    }

    /// A figure that was made of differences when they came in.
    pub fn figure<T>(self, figure: Option<T>) -> Option<T> {
        figure.filter(|_| self.fault.is_none())
    }
}
