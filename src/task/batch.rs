//! What one commit carries: everything that must be exactly once is in a [`CommitBatch`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::changelog::Key;
use crate::bundle::{Cuts, SessionMeasures};
use crate::collector::{EndReason, Limits, SessionClock};
use crate::ids::{MAX_SESSION_ID_BYTES, Offset, Partition, SessionId};
use crate::time::Timestamp;
use crate::wire::{DeadLetterReason, EventClass, Unsupported};

/// The effects of a partition's records since its last commit, written in one transaction.
#[derive(Clone, Debug)]
pub struct CommitBatch {
    pub partition: Partition,
    /// The offset to commit: the next one to read.
    pub next_offset: Offset,
    pub bundles: Vec<Bundle>,
    pub changelog: Vec<ChangelogEntry>,
    pub dead_letters: Vec<DeadLetter>,
    /// What the records were; counted by metrics once the batch is committed.
    pub counts: Counts,
    /// The record whose timestamp is furthest past the wall clock, of those too far past it to be believed.
    pub furthest_ahead: Option<Ahead>,
    /// What became of the sessions of `bundles`, in their order; for metrics too.
    pub finished: Vec<FinishedSession>,
}

/// A record that was stamped past the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ahead {
    pub by: Duration,
    pub offset: Offset,
}

/// A session whose bundle is in the batch.
#[derive(Clone, PartialEq, Debug)]
pub struct FinishedSession {
    /// Its own end, or when the timeout that ended it ran out; by the task's time.
    pub ended_at: Timestamp,
    pub measures: SessionMeasures,
}

/// A finished session's bundle (contract.md section 5).
#[derive(Clone, PartialEq, Debug)]
pub struct Bundle {
    pub session_id: SessionId,
    pub end_reason: EndReason,
    /// The whole bundle: one JSON object, no newline.
    pub json: Vec<u8>,
    /// Where it may be cut.
    pub cuts: Cuts,
}

impl Bundle {
    /// The values of its records, in order, none over `max_bytes` unless a single row or the rest beside the rows is.
    pub fn records(&self, max_bytes: usize) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.cuts.parts(&self.json, max_bytes)
    }
}

/// Bytes of the largest key and value that a session within `limits` makes in the changelog.
#[must_use]
pub fn largest_entry(limits: &Limits) -> usize {
    limits.largest_snapshot() + Key::Response("", 0).encode().len() + MAX_SESSION_ID_BYTES
}

/// One record of the compacted changelog; no value is a tombstone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangelogEntry {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// A record that could not be read, kept whole (contract.md section 1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    pub reason: DeadLetterReason,
    /// Where and why reading stopped; never a part of the payload.
    pub detail: String,
    pub partition: Partition,
    pub offset: Offset,
    pub timestamp: Option<Timestamp>,
    pub key: Option<Vec<u8>>,
    pub payload: Vec<u8>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl DeadLetter {
    /// Bytes of the record's key, value and headers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let header = |(name, value): &(String, Option<Vec<u8>>)| name.len() + value.as_ref().map_or(0, Vec::len);
        let headers: usize = self.headers.iter().map(header).sum();
        self.key.as_ref().map_or(0, Vec::len) + self.payload.len() + headers
    }
}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// It moved its session.
    Accepted,
    /// A replay after a reconnect (contract.md section 1.3).
    Duplicate,
    /// Its session's bundle was already written (contract.md section 7).
    Late,
}

impl Outcome {
    /// The value of the `outcome` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
        }
    }
}

/// Counts of one batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Records read, of every kind.
    pub records: u64,
    /// Bytes of their values.
    pub bytes: u64,
    pub tombstones: u64,
    /// Events whose timestamp is further past the wall clock than `session.clock_tolerance`.
    pub timestamps_ahead: u64,
    pub events: BTreeMap<(EventClass, Outcome), u64>,
    pub dead_letters: BTreeMap<DeadLetterReason, u64>,
    pub sessions_opened: u64,
    pub sessions_finished: BTreeMap<EndReason, u64>,
    /// Sessions whose receive times do not fit together, by how.
    pub clock_faults: BTreeMap<SessionClock, u64>,
    /// Bundles whose session hit a limit.
    pub truncated: u64,
    /// Markers of finished sessions that were forgotten before their time, for want of room.
    pub markers_evicted: u64,
    /// Metric values that could not be read and stand as 0 (contract.md section 3).
    pub unreadable_values: u64,
}

impl Counts {
    /// Events of shapes that are known and not read, whatever became of them.
    #[must_use]
    pub fn unsupported(&self) -> BTreeMap<Unsupported, u64> {
        let mut by_shape = BTreeMap::new();
        for ((class, _), n) in &self.events {
            if let EventClass::Unsupported(shape) = class {
                *by_shape.entry(*shape).or_default() += n;
            }
        }
        by_shape
    }

    /// Adds another batch's counts to these.
    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.tombstones += other.tombstones;
        self.timestamps_ahead += other.timestamps_ahead;
        self.sessions_opened += other.sessions_opened;
        self.truncated += other.truncated;
        self.markers_evicted += other.markers_evicted;
        self.unreadable_values += other.unreadable_values;
        for (key, n) in &other.events {
            *self.events.entry(*key).or_default() += n;
        }
        for (key, n) in &other.dead_letters {
            *self.dead_letters.entry(*key).or_default() += n;
        }
        for (key, n) in &other.clock_faults {
            *self.clock_faults.entry(*key).or_default() += n;
        }
        for (key, n) in &other.sessions_finished {
            *self.sessions_finished.entry(*key).or_default() += n;
        }
    }
}
