//! What a session counts beside its responses (contract.md section 5, `session`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    pub errors: BTreeMap<String, u64>,
    pub listens: u64,
    pub speaks: u64,
    /// Overlap decisions by action.
    pub overlap: BTreeMap<String, u64>,
    pub resumes: u64,
}

impl Tallies {
    /// Counts an accepted event; returns whether a limit kept a name out.
    #[must_use]
    pub fn count(&mut self, event: &Event<'_>, max_names: usize, text_bytes: usize) -> bool {
        self.events += 1;
        match event.kind {
            Kind::Error => bump(&mut self.errors, event.error_code, max_names, text_bytes),
            Kind::OverlapDecision => bump(&mut self.overlap, event.action, max_names, text_bytes),
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

fn bump(counts: &mut BTreeMap<String, u64>, name: Option<Text<'_>>, max_names: usize, text_bytes: usize) -> bool {
    let name = name.filter(|name| !name.is_empty()).map(Text::decode);
    let (name, was_cut) = cut(name.as_deref().unwrap_or(OTHER), text_bytes);
    if let Some(count) = counts.get_mut(name) {
        *count += 1;
        return was_cut;
    }
    let full = counts.len() >= max_names;
    *counts.entry(if full { OTHER } else { name }.to_owned()).or_default() += 1;
    was_cut || full
}
