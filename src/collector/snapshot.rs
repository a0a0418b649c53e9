//! A session as the changelog keeps it: a record for its head, one for each response that changed, and one for the facts
//! that were newly held until the stream start is known.
//!
//! So a commit costs what changed since the last, not the session's history. Snapshots hold no text and no audio.

mod v3;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::response::ResponseFacts;
use super::session::{Head, HeldSnapshots, SessionCollector};
use super::settings::Limits;
use super::stream_start::HeldFacts;
use crate::fault::{self, Fault};
use crate::ids::SessionId;

/// The version that snapshots are written in, their first byte.
///
/// | version | |
/// |---|---|
/// | 1 | the first |
/// | 2 | the task's time became a checkpoint; all else is as in 1 |
/// | 3 | held facts have left the head for records of their own; all else is as in 2 |
/// | 4 | playback, ends of responses, onset of speech, receive times of the session |
/// | 5 | the checkpoint says of which topic it is; all else is as in 4 |
/// | 6 | the checkpoint has all that tells the task's time |
pub const SNAPSHOT_VERSION: u8 = 6;

/// Bytes that one snapshot of facts that wait comes to, unless a single fact is larger.
const HELD_SNAPSHOT_BYTES: usize = 64 << 10;

/// Why a snapshot can't be restored.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SnapshotError {
    #[error(
        "snapshot version {0} is not known to this release, which reads up to {SNAPSHOT_VERSION}; run the newer release"
    )]
    UnknownVersion(u8),
    #[error("snapshot is damaged: {0}")]
    Damaged(String),
    #[error("snapshot of response {index} is missing, the session has {of}")]
    MissingResponse { index: u32, of: u32 },
    #[error("snapshots of facts that wait for the stream start are missing")]
    MissingFacts,
}

impl Limits {
    /// Bytes of the largest snapshot that they let come about.
    #[must_use]
    pub fn largest_snapshot(&self) -> usize {
        /// A snapshot's numbers, and a stage's.
        const NUMBERS: usize = 1024;
        const STAGE_NUMBERS: usize = 256;
        let stages = self.stages * (3 * self.text_bytes + STAGE_NUMBERS) + self.interval_values * size_of::<f64>();
        // An id, and two texts of what the server's values measure.
        let facts = 3 * self.text_bytes + stages + NUMBERS;
        let names = 2 * (self.error_codes + 1) * (self.text_bytes + 2 * size_of::<u64>());
        let head = 6 * self.text_bytes + names + NUMBERS;
        (HELD_SNAPSHOT_BYTES + facts).max(head)
    }
}

/// The changed parts of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub head: Vec<u8>,
    /// Index and snapshot of each response that changed.
    pub responses: Vec<(u32, Vec<u8>)>,
    /// Indexes and snapshots of the facts that were newly held.
    pub held: Vec<(u32, Vec<u8>)>,
    /// Snapshots of held facts, from index 0 on, that are of no use any more.
    pub released: u32,
}

impl SessionCollector {
    /// The parts that changed since the last call.
    pub fn snapshot(&mut self) -> Snapshot {
        let responses = std::mem::take(&mut self.dirty)
            .into_iter()
            .skip(usize::from(fault::is_on(Fault::SkipDirtyResponse)))
            .map(|index| (index, encode(&self.responses[index as usize])))
            .collect();
        let facts = self.head.start.held();
        let mut snapshot = Snapshot { head: encode(&self.head), responses, held: Vec::new(), released: 0 };
        if fault::is_on(Fault::ForgetSequence) {
            snapshot.head = encode(&Head { last_seq: None, ..self.head.clone() });
        }
        if fault::is_on(Fault::ForgetHeldFacts) {
            return snapshot;
        }
        if facts.is_empty() {
            snapshot.released = std::mem::take(&mut self.held).count;
        }
        while self.held.facts < facts.len() {
            let new = &facts[self.held.facts..];
            let mut bytes = 0;
            let fit = new.iter().take_while(|held| {
                bytes += held.bytes();
                bytes <= HELD_SNAPSHOT_BYTES
            });
            let count = fit.count().max(1);
            snapshot.held.push((self.held.count, encode(&new[..count])));
            self.held = HeldSnapshots { facts: self.held.facts + count, count: self.held.count + 1 };
        }
        snapshot
    }

    /// A session from its snapshots; `held` and `responses` by ascending index.
    ///
    /// Parts that the head does not know yet are left out: without transactions a crash can come between them and it.
    ///
    /// # Errors
    /// When a snapshot is of a newer version, damaged or missing.
    pub fn restore<'a>(
        id: SessionId,
        head: &[u8],
        held: impl IntoIterator<Item = (u32, &'a [u8])>,
        responses: impl IntoIterator<Item = (u32, &'a [u8])>,
    ) -> Result<Self, SnapshotError> {
        let mut head: Head = decode_as::<_, v3::Head>(head)?;
        let mut in_snapshots = HeldSnapshots::default();
        let holds_none = head.start.is_whole();
        for (index, snapshot) in held {
            if holds_none {
                // Their tombstones are still to be written.
                in_snapshots.count = index.saturating_add(1);
            } else if !head.start.is_whole() {
                let facts: Vec<HeldFacts> = decode_as::<_, v3::Held>(snapshot)?;
                in_snapshots =
                    HeldSnapshots { facts: in_snapshots.facts + facts.len(), count: index.saturating_add(1) };
                head.start.restore_held(facts);
            }
        }
        if !head.start.is_whole() {
            return Err(SnapshotError::MissingFacts);
        }
        let responses = responses.into_iter().take(head.responses as usize);
        let mut restored = Vec::with_capacity(responses.size_hint().0);
        for (index, snapshot) in responses {
            if index as usize != restored.len() {
                break;
            }
            restored.push(decode_as::<ResponseFacts, v3::Response>(snapshot)?);
        }
        if restored.len() < head.responses as usize {
            return Err(SnapshotError::MissingResponse { index: restored.len() as u32, of: head.responses });
        }
        let knows = |held: &HeldFacts| (held.response as usize) < restored.len();
        if !head.start.has_an_event() || !head.start.held().iter().all(knows) {
            return Err(SnapshotError::Damaged("its parts contradict each other".into()));
        }
        let by_id = restored.iter().zip(0..).map(|(response, index)| (response.id.clone(), index)).collect();
        let dirty = Default::default();
        let mut session = Self { id, head, responses: restored, by_id, dirty, held: in_snapshots, parts_bytes: 0 };
        session.parts_bytes = session.measure_parts();
        Ok(session)
    }

    /// How many snapshots of held facts it has.
    #[must_use]
    pub fn held_snapshots(&self) -> u32 {
        self.held.count
    }

    /// How many responses it has snapshots of, once [`Self::snapshot`] was taken.
    #[must_use]
    pub fn response_count(&self) -> u32 {
        self.head.responses
    }
}

/// A value behind its version byte.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![SNAPSHOT_VERSION]).expect("facts can be written to memory")
}

/// The version that a snapshot was written in.
pub(crate) fn version(snapshot: &[u8]) -> Option<u8> {
    snapshot.first().copied()
}

/// The value behind its version byte, which up to version 3 had the layout of `Old`.
fn decode_as<T: DeserializeOwned + From<Old>, Old: DeserializeOwned>(snapshot: &[u8]) -> Result<T, SnapshotError> {
    match version(snapshot) {
        Some(1..=3) => decode::<Old>(snapshot).map(Into::into),
        _ => decode(snapshot),
    }
}

/// The value behind its version byte, of a layout that never changed.
pub(crate) fn decode<T: DeserializeOwned>(snapshot: &[u8]) -> Result<T, SnapshotError> {
    match snapshot.split_first() {
        Some((1..=SNAPSHOT_VERSION, rest)) => {
            postcard::from_bytes(rest).map_err(|e| SnapshotError::Damaged(e.to_string()))
        }
        Some((version, _)) => Err(SnapshotError::UnknownVersion(*version)),
        None => Err(SnapshotError::Damaged("it is empty".into())),
    }
}
