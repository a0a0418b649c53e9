//! What the process has read lately, in slots of time: counters tell of all time, a verdict is on now.

use std::collections::BTreeMap;

use crate::report::{RECENT, Recent};
use crate::task::Counts;
use crate::time::Timestamp;
use crate::wire::EventClass;

const SLOT_MS: i64 = 10_000;
const SLOTS: i64 = RECENT.as_millis() as i64 / SLOT_MS;

/// Counts of the last [`RECENT`], to the slot.
#[derive(Debug, Default)]
pub(super) struct RecentCounts {
    slots: BTreeMap<i64, Slot>,
    /// Events of no type that the protocol has, since the process began.
    foreign: u64,
    has_seen_protocol: bool,
    /// When a session finished for the last time, or events began to come.
    finished_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    records: u64,
    dead_letters: u64,
    events: u64,
    unsupported: u64,
}

impl RecentCounts {
    /// Takes what was committed at `at`.
    pub fn add(&mut self, counts: &Counts, at: Timestamp) {
        self.forget_before(at);
        let has_paused = self.slots.values().all(|slot| slot.events == 0);
        let slot = self.slots.entry(at.0.div_euclid(SLOT_MS)).or_default();
        slot.records += counts.records;
        slot.dead_letters += counts.dead_letters.values().sum::<u64>();
        for ((class, _), n) in &counts.events {
            match class {
                EventClass::Other => self.foreign += n,
                EventClass::Unsupported(_) => slot.unsupported += n,
                _ => slot.events += n,
            }
        }
        self.has_seen_protocol |= slot.events + slot.unsupported > 0;
        if has_paused || !counts.sessions_finished.is_empty() {
            self.finished_at = Some(at);
        }
    }

    /// What is counted at `now`.
    pub fn at(&mut self, now: Timestamp) -> Recent {
        self.forget_before(now);
        let sum = |of: fn(&Slot) -> u64| self.slots.values().map(of).sum();
        let silent = self.finished_at.map_or(0, |at| now.since(at).as_millis());
        Recent {
            records: sum(|slot| slot.records),
            dead_letters: sum(|slot| slot.dead_letters),
            events: sum(|slot| slot.events),
            events_unsupported: sum(|slot| slot.unsupported),
            events_of_no_duplex_protocol: if self.has_seen_protocol { 0 } else { self.foreign },
            none_finished_ms: u64::try_from(silent).unwrap_or(u64::MAX),
        }
    }

    fn forget_before(&mut self, now: Timestamp) {
        let first = now.0.div_euclid(SLOT_MS) - SLOTS + 1;
        // A clock that was ahead and was set back leaves none of later either.
        self.slots.retain(|slot, _| (first..first + SLOTS).contains(slot));
        self.finished_at = self.finished_at.map(|at| at.min(now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::collector::EndReason;
    use crate::task::Outcome;
    use crate::wire::DeadLetterReason;

    const T0: Timestamp = Timestamp(1_000_000_000);

    fn of(class: EventClass, n: u64) -> Counts {
        Counts { records: n, events: [((class, Outcome::Accepted), n)].into(), ..Counts::default() }
    }

    #[test]
    fn what_was_read_is_forgotten_after_a_while() {
        let mut recent = RecentCounts::default();
        let letters = Counts { records: 3, dead_letters: [(DeadLetterReason::TooDeep, 2)].into(), ..Counts::default() };
        recent.add(&letters, T0);
        recent.add(&of(EventClass::Audio, 7), T0 + RECENT / 2);
        let now = recent.at(T0 + RECENT / 2);
        assert_eq!((now.records, now.dead_letters, now.events), (10, 2, 7));
        let now = recent.at(T0 + RECENT);
        assert_eq!((now.records, now.dead_letters, now.events), (7, 0, 7));
        assert_eq!(recent.at(T0 + 2 * RECENT).records, 0);
    }

    #[test]
    fn events_of_another_protocol_are_told_until_the_first_of_the_duplex_protocol() {
        let mut recent = RecentCounts::default();
        recent.add(&of(EventClass::Other, 7), T0);
        // However long ago: the topic is as wrong as before.
        assert_eq!(recent.at(T0 + 9 * RECENT).events_of_no_duplex_protocol, 7);
        recent.add(&of(EventClass::Session, 1), T0);
        recent.add(&of(EventClass::Other, 7), T0 + RECENT);
        assert_eq!(recent.at(T0 + 9 * RECENT).events_of_no_duplex_protocol, 0);
    }

    #[test]
    fn silence_is_counted_from_the_last_session_that_finished_or_the_first_event_after_a_pause() {
        let mut recent = RecentCounts::default();
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let finished = Counts { sessions_finished: [(EndReason::Closed, 1)].into(), ..of(EventClass::Session, 1) };
        recent.add(&finished, T0);
        for minute in 1..40 {
            recent.add(&of(EventClass::Audio, 1), T0 + minutes(minute));
        }
        assert_eq!(recent.at(T0 + minutes(40)).none_finished_ms, 40 * 60_000);
        recent.add(&finished, T0 + minutes(41));
        assert_eq!(recent.at(T0 + minutes(42)).none_finished_ms, 60_000);
        recent.add(&of(EventClass::Audio, 1), T0 + minutes(500));
        assert_eq!(recent.at(T0 + minutes(501)).none_finished_ms, 60_000);
    }
}
