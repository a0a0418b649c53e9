//! What a session counts beside its responses (contract.md section 5, `session`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize, Serializer};

use crate::wire::{Event, Kind, OTHER, Text, cut};

/// Counts of one session. None comes near the largest number, and stays there if it does.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tallies {
    /// Events that moved the session.
    pub events: u32,
    /// Replayed events that were dropped.
    pub duplicates: u32,
    /// Places where `server_event_seq` jumped by more than one.
    pub gaps: u32,
    /// Events after the session's end, within the grace.
    pub late_events: u32,
    pub errors: Names,
    pub listens: u32,
    pub speaks: u32,
    /// Overlap decisions by action.
    pub overlap: Names,
    pub resumes: u32,
}

/// Counts by a name that producers choose. Most sessions have none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(from = "BTreeMap<String, u64>")]
pub struct Names(Option<Box<Counted>>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Counted {
    counts: BTreeMap<String, u64>,
    /// What the names take, the tree's first node apart.
    bytes: usize,
}

impl Names {
    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        static NONE: BTreeMap<String, u64> = BTreeMap::new();
        self.0.as_ref().map_or(&NONE, |counted| &counted.counts)
    }

    /// Bytes that they take at most.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |counted| FIRST_NODE_BYTES + counted.bytes)
    }

    /// Counts a name; returns whether a limit kept it out.
    fn bump(&mut self, name: Option<Text<'_>>, max_names: usize, text_bytes: usize) -> bool {
        let name = name.map(Text::decode);
        let (name, was_cut) = cut(name.as_deref().unwrap_or(OTHER), text_bytes);
        let Counted { counts, bytes } = &mut **self.0.get_or_insert_default();
        if let Some(count) = counts.get_mut(name) {
            *count += 1;
            return was_cut;
        }
        let full = counts.len() >= max_names;
        let count = counts.entry(if full { OTHER } else { name }.to_owned());
        *bytes += if matches!(count, Entry::Vacant(_)) { name_bytes(count.key()) } else { 0 };
        *count.or_default() += 1;
        was_cut || full
    }
}

/// A node of a tree has eleven places, and more for those below it.
const FIRST_NODE_BYTES: usize = size_of::<Counted>() + 12 * size_of::<(String, u64)>();

/// A name in a tree whose nodes are half full.
fn name_bytes(name: &str) -> usize {
    name.len() + 2 * size_of::<(String, u64)>() + 32
}

impl From<BTreeMap<String, u64>> for Names {
    fn from(counts: BTreeMap<String, u64>) -> Self {
        let bytes = counts.keys().map(|name| name_bytes(name)).sum();
        Self((!counts.is_empty()).then(|| Box::new(Counted { counts, bytes })))
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.counts().serialize(serializer)
    }
}

impl Tallies {
    /// Counts an accepted event; returns whether a limit kept a name out.
    #[must_use]
    pub fn count(&mut self, event: &Event<'_>, max_names: usize, text_bytes: usize) -> bool {
        add(&mut self.events);
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

fn add(count: &mut u32) -> bool {
    *count = count.saturating_add(1);
    false
}
