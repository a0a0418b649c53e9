//! A rolling window by event time, in slots.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::tally::Tally;
use crate::time::Timestamp;

/// Slots of a window: it moves on by a sixtieth of its length at a time.
const SLOTS: i64 = 60;

/// What was tallied in the last `length` before an end, to the slot.
#[derive(Debug)]
pub struct Rolling {
    slot_ms: i64,
    /// Samples that one slot keeps exactly: all slots together keep what the window may.
    slot_bound: usize,
    bound: usize,
    tolerance: Duration,
    slots: BTreeMap<i64, Tally>,
}

impl Rolling {
    /// An empty window; `bound` samples of each measure are kept exactly, and what happened within `tolerance` after its end
    /// is in it.
    #[must_use]
    pub fn new(length: Duration, bound: usize, tolerance: Duration) -> Self {
        let length_ms = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let slot_bound = (bound / SLOTS as usize).max(1);
        Self { slot_ms: (length_ms / SLOTS).max(1), slot_bound, bound, tolerance, slots: BTreeMap::new() }
    }

    /// The slot that is current at `time`.
    #[must_use]
    pub fn slot(&self, time: Timestamp) -> i64 {
        time.0.div_euclid(self.slot_ms)
    }

    /// Length of a slot in milliseconds.
    #[must_use]
    pub fn slot_ms(&self) -> i64 {
        self.slot_ms
    }

    /// The tally that what happened at `time` goes into; `None` where that is before a window that ends at `earliest_end`, and no
    /// window will end before it.
    pub fn at(&mut self, time: Timestamp, earliest_end: Timestamp) -> Option<&mut Tally> {
        let (slot, first, bound) = (self.slot(time), self.first(earliest_end), self.slot_bound);
        while self.slots.first_key_value().is_some_and(|(slot, _)| *slot < first) {
            self.slots.pop_first();
        }
        (slot >= first).then(|| self.slots.entry(slot).or_insert_with(|| Tally::bounded(bound)))
    }

    /// Adds all of `other`, a window of the same length.
    pub fn merge(&mut self, other: Self) {
        let bound = self.slot_bound;
        for (slot, tally) in other.slots {
            self.slots.entry(slot).or_insert_with(|| Tally::bounded(bound)).merge(&tally);
        }
    }

    /// What is in the window that ends with the slot of `end`.
    pub fn until(&mut self, end: Timestamp) -> Tally {
        let mut all = Tally::bounded(self.bound);
        self.slots_until(end).for_each(|(_, slot)| all.merge(slot));
        all
    }

    /// The slots of that window in which something happened, by the time they begin. What happened after the end counts as of
    /// its last slot.
    pub fn slots_until(&mut self, end: Timestamp) -> impl Iterator<Item = (Timestamp, &mut Tally)> {
        let (range, last, slot_ms) = (self.range(end), self.slot(end), self.slot_ms);
        self.slots.range_mut(range).map(move |(slot, tally)| (Timestamp(*slot.min(&last) * slot_ms), tally))
    }

    /// Whether nothing is in that window.
    #[must_use]
    pub fn is_empty(&self, end: Timestamp) -> bool {
        self.slots.range(self.range(end)).next().is_none()
    }

    /// The slots of the window that ends with the slot of `end`, and of the tolerance after it.
    #[must_use]
    pub fn range(&self, end: Timestamp) -> RangeInclusive<i64> {
        self.first(end)..=self.slot(end + self.tolerance)
    }

    fn first(&self, end: Timestamp) -> i64 {
        self.slot(end) - SLOTS + 1
    }
}
