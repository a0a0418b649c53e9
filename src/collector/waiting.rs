//! Facts that wait until it is known whether they are in the stream's window (contract.md section 2).

use super::fact::Fact;

/// How many wait at most: so many may arrive out of the order of their receive times, and the window is exact all the same.
pub(super) const ROOM: usize = 64;

/// What their metrics may take, in bytes: one that takes more does not wait.
pub(super) const ROOM_BYTES: usize = 64 << 10;

/// So many of them are one record of the changelog: a commit writes those that changed.
const FACTS_A_RECORD: usize = 8;

/// The facts of a session that wait: those with the latest receive times.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Waiting {
    /// A fact keeps its place until it goes, and the next one takes that place.
    facts: Vec<Fact>,
    /// Which of the records changed since the last snapshot, a bit each.
    dirty: u8,
    /// How many records the changelog has.
    recorded: u32,
}

impl Waiting {
    /// Lets a fact wait. Where there is no room, the one with the earliest receive time goes instead.
    pub fn hold(&mut self, fact: Fact) -> Option<Fact> {
        if self.facts.len() < ROOM {
            self.touch(self.facts.len());
            // Most sessions have a few of them when their only response has all that it says.
            self.facts.reserve_exact(if self.facts.len() == self.facts.capacity() { 4 } else { 0 });
            self.facts.push(fact);
            return None;
        }
        let at = self.earliest().filter(|at| self.facts[*at].place() < fact.place());
        let Some(at) = at else { return Some(fact) };
        self.touch(at);
        Some(std::mem::replace(&mut self.facts[at], fact))
    }

    /// The fact with the earliest receive time, which goes.
    pub fn take_earliest(&mut self) -> Option<Fact> {
        let at = self.earliest()?;
        let last = self.facts.len() - 1;
        self.touch(at);
        self.touch(last);
        Some(self.facts.swap_remove(at))
    }

    /// All of them, in the order in which they arrived: they go.
    pub fn take_all(&mut self) -> Vec<Fact> {
        let mut facts = std::mem::take(&mut self.facts);
        facts.sort_unstable_by_key(|fact| fact.moment.ordinal);
        facts
    }

    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    fn earliest(&self) -> Option<usize> {
        let place = |at: &usize| self.facts[*at].place();
        (0..self.facts.len()).min_by(|one, other| place(one).partial_cmp(&place(other)).expect("times are finite"))
    }

    fn touch(&mut self, at: usize) {
        self.dirty |= 1 << (at / FACTS_A_RECORD).min(7);
    }

    /// How many records the changelog has.
    pub fn recorded(&self) -> u32 {
        self.recorded
    }

    /// Index and facts of each record that changed since the last call.
    pub fn changed(&mut self) -> impl Iterator<Item = (u32, &[Fact])> {
        let dirty = std::mem::take(&mut self.dirty);
        let records = records(self.facts.len());
        self.recorded = self.recorded.max(records);
        // What an earlier release let wait may be more than there is room for: the last bit is for all of those.
        let changed = (0..records).filter(move |index| dirty & (1 << (*index).min(7)) != 0);
        changed.zip(std::iter::repeat(&self.facts[..])).map(|(index, facts)| {
            let first = index as usize * FACTS_A_RECORD;
            (index, &facts[first..facts.len().min(first + FACTS_A_RECORD)])
        })
    }

    /// Once nothing waits any more: how many records are of no use.
    pub fn released(&mut self) -> u32 {
        if self.facts.is_empty() { std::mem::take(&mut self.recorded) } else { 0 }
    }

    /// Those that waited when `recorded` records were written; all are written anew where `is_dirty`.
    pub fn restored(facts: Vec<Fact>, recorded: u32, is_dirty: bool) -> Self {
        Self { facts, dirty: if is_dirty { u8::MAX } else { 0 }, recorded }
    }
}

/// How many records so many facts make.
pub(super) fn records(facts: usize) -> u32 {
    facts.div_ceil(FACTS_A_RECORD) as u32
}
