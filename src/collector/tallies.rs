//! What a session counts beside its responses (contract.md section 5, `session`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize, Serializer};

use crate::wire::{Event, Kind, OTHER, Text, cut};

/// Counts of one session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tallies {
    /// Events that moved the session.
    pub events: u64,
    /// Replayed events that were dropped.
    pub duplicates: u64,
    /// Places where `server_event_seq` jumped by more than one.
    pub gaps: u64,
    /// Events after the session's end, within the grace.
    pub late_events: u64,
    pub errors: Names,
    pub listens: u64,
    pub speaks: u64,
    /// Overlap decisions by action.
    pub overlap: Names,
    pub resumes: u64,
}

/// Counts by a name that producers choose.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(from = "BTreeMap<String, u64>")]
pub struct Names {
    counts: BTreeMap<String, u64>,
    /// What the names take, the tree's first node apart.
    bytes: usize,
}

impl Names {
    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Bytes that they take at most.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        if self.counts.is_empty() { 0 } else { FIRST_NODE_BYTES + self.bytes }
    }

    /// Counts a name; returns whether a limit kept it out.
    fn bump(&mut self, name: Option<Text<'_>>, max_names: usize, text_bytes: usize) -> bool {
        let name = name.filter(|name| !name.is_empty()).map(Text::decode);
        let (name, was_cut) = cut(name.as_deref().unwrap_or(OTHER), text_bytes);
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return was_cut;
        }
        let full = self.counts.len() >= max_names;
        let count = self.counts.entry(if full { OTHER } else { name }.to_owned());
        self.bytes += if matches!(count, Entry::Vacant(_)) { name_bytes(count.key()) } else { 0 };
        *count.or_default() += 1;
        was_cut || full
    }
}

/// A node of a tree has eleven places, and more for those below it.
const FIRST_NODE_BYTES: usize = 12 * size_of::<(String, u64)>();

/// A name in a tree whose nodes are half full.
fn name_bytes(name: &str) -> usize {
    name.len() + 2 * size_of::<(String, u64)>() + 32
}

impl From<BTreeMap<String, u64>> for Names {
    fn from(counts: BTreeMap<String, u64>) -> Self {
        Self { bytes: counts.keys().map(|name| name_bytes(name)).sum(), counts }
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.counts.serialize(serializer)
    }
}

impl Tallies {
    /// Counts an accepted event; returns whether a limit kept a name out.
    #[must_use]
    pub fn count(&mut self, event: &Event<'_>, max_names: usize, text_bytes: usize) -> bool {
        self.events += 1;
        match event.kind {
            Kind::Error => self.errors.bump(event.error_code, max_names, text_bytes),
            Kind::OverlapDecision => self.overlap.bump(event.action, max_names, text_bytes),
            Kind::Speak => add(&mut self.speaks),
            Kind::Listen => add(&mut self.listens),
            Kind::SessionResumed => add(&mut self.resumes),
            // Counted with the events only.
            _ => false,
        }
    }
}

fn add(count: &mut u64) -> bool {
    *count += 1;
    false
}
