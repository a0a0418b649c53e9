//! When the stream started: the best source that came, whenever it came (contract.md section 2).
//!
//! Facts that no longer wait are settled: in the window or before it, by the best source so far. Where a better source comes
//! after that, the range of their receive times tells what is to change.

use serde::{Deserialize, Serialize};

use super::received::Moment;
use super::source::{ReceiveClock, StreamStartSource};
use crate::wire::Kind;

/// The best source so far, and what was settled under it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StreamStart {
    pub(super) best: Option<Chosen>,
    /// An earlier release chose it for good: it no longer looked at what came later.
    pub(super) is_final: bool,
    pub(super) settled: Option<Box<Settled>>,
}

/// A source, and its receive time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Chosen {
    pub source: StreamStartSource,
    /// Seconds of the clock.
    pub at: f64,
    pub clock: ReceiveClock,
}

/// The receive times of what is settled, smallest and largest, in the window and before it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Settled {
    pub(super) in_window: Option<(f64, f64)>,
    pub(super) before_window: Option<(f64, f64)>,
}

/// What a better source changes for the facts that are settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Nothing,
    /// What was before the window is in it.
    AllIn,
    /// What was in the window is before it.
    AllOut,
    /// It lies between them, so it can't be told for all of them.
    Cut,
}

impl Chosen {
    /// Whether a receive time is in the window that it begins. One of another clock can't be compared, and is.
    pub(super) fn begins_before(self, moment: Moment) -> bool {
        moment.clock != self.clock || moment.at >= self.at
    }
}

impl StreamStart {
    /// The best source so far; `None` before the first event.
    #[must_use]
    pub fn best(&self) -> Option<Chosen> {
        self.best
    }

    /// Whether no better source can come.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.is_final || self.best.is_some_and(|best| best.source == StreamStartSource::Marker)
    }

    /// Takes note of an event. The first one of each source counts.
    pub fn observe(&mut self, kind: Kind, at: f64, clock: ReceiveClock) -> Change {
        let source = match kind {
            Kind::StreamStart => StreamStartSource::Marker,
            Kind::InputAudioAppend => StreamStartSource::InputAudioAppend,
            Kind::SessionCreated => StreamStartSource::SessionCreated,
            // Any event is the first one where none was before it.
            _ => StreamStartSource::FirstEvent,
        };
        if self.is_certain() || self.best.is_some_and(|best| best.source <= source) {
            return Change::Nothing;
        }
        let before = self.best.replace(Chosen { source, at, clock });
        // Times of another clock can't be compared: what is settled stays as it is.
        self.settled = self.settled.take().filter(|_| before.is_some_and(|before| before.clock == clock));
        self.settled.as_deref_mut().map_or(Change::Nothing, |settled| settled.move_to(at))
    }

    /// Whether a receive time is in the window that the best source begins.
    #[must_use]
    pub fn has(&self, moment: Moment) -> bool {
        self.best.is_none_or(|best| best.begins_before(moment))
    }

    /// Settles a fact of that time; returns whether it is in the window.
    pub fn settle(&mut self, moment: Moment) -> bool {
        let is_in_window = self.has(moment);
        if !self.is_certain() && self.best.is_some_and(|best| best.clock == moment.clock) {
            let settled = self.settled.get_or_insert_default();
            let range = if is_in_window { &mut settled.in_window } else { &mut settled.before_window };
            let (first, last) = range.unwrap_or((moment.at, moment.at));
            *range = Some((first.min(moment.at), last.max(moment.at)));
        }
        is_in_window
    }
}

impl Settled {
    /// What a window that begins at `start` changes.
    fn move_to(&mut self, start: f64) -> Change {
        let is_in = |range: Option<(f64, f64)>| range.is_none_or(|(first, _)| first >= start);
        let is_out = |range: Option<(f64, f64)>| range.is_none_or(|(_, last)| last < start);
        let Self { in_window, before_window } = *self;
        if is_in(in_window) && is_out(before_window) {
            Change::Nothing
        } else if is_in(in_window) && is_in(before_window) {
            *self = Self { in_window: both(in_window, before_window), before_window: None };
            Change::AllIn
        } else if is_out(in_window) && is_out(before_window) {
            *self = Self { in_window: None, before_window: both(in_window, before_window) };
            Change::AllOut
        } else {
            Change::Cut
        }
    }
}

fn both(one: Option<(f64, f64)>, other: Option<(f64, f64)>) -> Option<(f64, f64)> {
    one.into_iter().chain(other).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReceiveClock::{ClientMonotonic, KafkaTimestamp};

    /// A stream start after these sources, and facts that were settled at these times.
    fn settled(sources: &[(Kind, f64)], times: &[f64]) -> StreamStart {
        let mut start = StreamStart::default();
        for (kind, at) in sources {
            start.observe(*kind, *at, ClientMonotonic);
        }
        for at in times {
            start.settle(Moment { at: *at, ordinal: 0, clock: ClientMonotonic });
        }
        start
    }

    #[test]
    fn the_best_source_that_came_rules_whatever_the_order() {
        let mut start = StreamStart::default();
        for (kind, at, best) in [
            (Kind::Speak, 9.0, 9.0),
            (Kind::InputAudioAppend, 2.0, 2.0),
            (Kind::SessionCreated, 1.0, 2.0),
            (Kind::InputAudioAppend, 3.0, 2.0),
            (Kind::StreamStart, 5.0, 5.0),
            (Kind::StreamStart, 4.0, 5.0),
        ] {
            assert_eq!(start.is_certain(), best == 5.0 && at == 4.0);
            start.observe(kind, at, ClientMonotonic);
            assert_eq!(start.best().map(|best| best.at), Some(best), "{kind:?}");
        }
    }

    #[test]
    fn a_better_source_moves_what_is_settled_as_far_as_it_can_be_told() {
        let append = [(Kind::InputAudioAppend, 10.0)];
        for (times, marker, change) in [
            (&[11.0, 12.0][..], 10.5, Change::Nothing),
            (&[11.0, 12.0], 11.0, Change::Nothing),
            (&[11.0, 12.0], 12.5, Change::AllOut),
            (&[11.0, 12.0], 11.5, Change::Cut),
            (&[8.0, 9.0, 11.0], 8.0, Change::AllIn),
            (&[8.0, 9.0, 11.0], 9.5, Change::Nothing),
            (&[8.0, 9.0, 11.0], 8.5, Change::Cut),
            (&[8.0, 9.0, 11.0], 11.5, Change::AllOut),
            (&[], 11.5, Change::Nothing),
        ] {
            let mut start = settled(&append, times);
            assert_eq!(start.observe(Kind::StreamStart, marker, ClientMonotonic), change, "{times:?}, {marker}");
        }
    }

    #[test]
    fn times_of_another_clock_are_not_compared() {
        let mut start = settled(&[(Kind::SessionCreated, 10.0)], &[11.0]);
        assert!(start.has(Moment { at: 1.0, ordinal: 0, clock: KafkaTimestamp }));
        assert_eq!(start.observe(Kind::StreamStart, 1.7e9, KafkaTimestamp), Change::Nothing);
    }
}
