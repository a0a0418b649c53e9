//! A session as the changelog keeps it: a record for its head, one for each response that changed, and one for some of the
//! facts that wait for a better stream start, where those changed.
//!
//! So a commit costs what changed since the last, not the session's history. Snapshots hold no text and no audio.

mod v3;
mod v5;

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::fact::Fact;
use super::head::Head;
use super::received::Received;
use super::response::ResponseFacts;
use super::session::SessionCollector;
use super::settings::Limits;
use super::waiting::{ROOM_BYTES, Waiting, records};
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
/// | 6 | the checkpoint has all that tells the task's time; each receive time has its clock; facts that wait have a bounded room |
pub const SNAPSHOT_VERSION: u8 = 6;

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
        (ROOM_BYTES + facts).max(head)
    }
}

/// The changed parts of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub head: Vec<u8>,
    /// Index and snapshot of each response that changed.
    pub responses: Vec<(u32, Vec<u8>)>,
    /// Indexes and snapshots of facts that wait, where they changed.
    pub held: Vec<(u32, Vec<u8>)>,
    /// Snapshots of facts that waited, from index 0 on, that are of no use any more.
    pub released: u32,
}

impl SessionCollector {
    /// The parts that changed since the last call.
    pub fn snapshot(&mut self) -> Snapshot {
        let first = std::mem::replace(&mut self.first_dirty, u32::MAX);
        let from_first = self.responses.iter_mut().enumerate().skip(first as usize);
        let dirty = from_first.filter(|(_, response)| response.is_dirty);
        let responses = dirty
            .skip(usize::from(fault::is_on(Fault::SkipDirtyResponse)))
            .map(|(index, response)| {
                response.is_dirty = false;
                (index as u32, encode(response))
            })
            .collect();
        let mut snapshot = Snapshot { head: encode(&self.head), responses, held: Vec::new(), released: 0 };
        if fault::is_on(Fault::ForgetSequence) {
            snapshot.head = encode(&Head { last_seq: None, ..self.head.clone() });
        }
        if fault::is_on(Fault::ForgetHeldFacts) {
            return snapshot;
        }
        snapshot.released = self.waiting.released();
        snapshot.held = self.waiting.changed().map(|(index, facts)| (index, encode(facts))).collect();
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
        head_bytes: &[u8],
        held: impl IntoIterator<Item = (u32, &'a [u8])>,
        responses: impl IntoIterator<Item = (u32, &'a [u8])>,
    ) -> Result<Self, SnapshotError> {
        // What an earlier release wrote is written anew, with the session's next snapshot.
        let is_old = matches!(version(head_bytes), Some(1..=5));
        let (head, waiting) = if is_old { restore_v5(head_bytes, held)? } else { restore_head(head_bytes, held)? };
        let responses = responses.into_iter().take(head.responses as usize);
        let mut restored = Vec::with_capacity(responses.size_hint().0);
        for (index, snapshot) in responses {
            if index as usize != restored.len() {
                break;
            }
            let response = restore_response(snapshot, &head.received)?;
            restored.push(ResponseFacts { is_dirty: is_old, ..response });
        }
        if restored.len() < head.responses as usize {
            return Err(SnapshotError::MissingResponse { index: restored.len() as u32, of: head.responses });
        }
        let knows = |fact: &Fact| (fact.response as usize) < restored.len();
        if head.start.best().is_none() || !waiting.facts().iter().all(knows) {
            return Err(SnapshotError::Damaged("its parts contradict each other".into()));
        }
        let (by_id, last) = (None, head.responses.checked_sub(1));
        let first_dirty = if is_old { 0 } else { u32::MAX };
        let mut session = Self { id, head, responses: restored, by_id, first_dirty, waiting, parts_bytes: 0 };
        last.into_iter().for_each(|last| session.index(last));
        session.parts_bytes = session.measure_parts();
        Ok(session)
    }

    /// How many snapshots of facts that wait it has.
    #[must_use]
    pub fn held_snapshots(&self) -> u32 {
        self.waiting.recorded()
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

fn restore_head<'a>(
    head: &[u8],
    held: impl IntoIterator<Item = (u32, &'a [u8])>,
) -> Result<(Head, Waiting), SnapshotError> {
    let head: Head = decode(head)?;
    let needed = records(head.waiting as usize);
    let (mut facts, mut found, mut recorded) = (Vec::new(), 0, 0);
    for (index, snapshot) in held {
        recorded = index.saturating_add(1);
        if index < needed {
            found += 1;
            let part: Vec<Fact> = decode(snapshot)?;
            facts.extend(part);
        }
    }
    if found < needed {
        return Err(SnapshotError::MissingFacts);
    }
    // Without transactions a crash may have left records of a later head, with facts that this one does not know or has in
    // another place.
    let ordinals: BTreeSet<u32> = facts.iter().map(|fact: &Fact| fact.moment.ordinal).collect();
    let knows_all = ordinals.last().is_none_or(|last| *last <= head.tallies.events);
    let is_torn = !knows_all || ordinals.len() != facts.len() || facts.len() != head.waiting as usize;
    if is_torn {
        mend(&mut facts, &head);
    }
    Ok((head, Waiting::restored(facts, recorded, is_torn)))
}

fn restore_v5<'a>(
    head: &[u8],
    held: impl IntoIterator<Item = (u32, &'a [u8])>,
) -> Result<(Head, Waiting), SnapshotError> {
    let head: v5::Head = decode_as::<_, v3::Head>(head)?;
    let (mut facts, mut anew, mut recorded) = (Vec::new(), Vec::<Fact>::new(), 0);
    for (index, snapshot) in held {
        recorded = index.saturating_add(1);
        if matches!(version(snapshot), Some(1..=5)) {
            // Where none is needed, only their tombstones are missing.
            if !head.has_all(&facts) {
                let part: v5::Held = decode_as::<_, v3::Held>(snapshot)?;
                facts.extend(part.0);
            }
        } else {
            // A crash came before the first head of this release.
            anew.extend(decode::<Vec<Fact>>(snapshot)?);
        }
    }
    if anew.is_empty() && !head.has_all(&facts) {
        return Err(SnapshotError::MissingFacts);
    }
    let (mut head, mut facts) = head.of_now(facts);
    if !anew.is_empty() {
        facts.extend(anew);
        mend(&mut facts, &head);
    }
    head.waiting = facts.len() as u32;
    Ok((head, Waiting::restored(facts, recorded, true)))
}

/// Leaves each fact that the head knows once.
fn mend(facts: &mut Vec<Fact>, head: &Head) {
    facts.retain(|fact| fact.moment.ordinal <= head.tallies.events);
    facts.sort_unstable_by_key(|fact| fact.moment.ordinal);
    facts.dedup_by_key(|fact| fact.moment.ordinal);
}

fn restore_response(snapshot: &[u8], received: &Received) -> Result<ResponseFacts, SnapshotError> {
    match version(snapshot) {
        Some(1..=5) => decode_as::<v5::Response, v3::Response>(snapshot).map(|response| response.of_now(received)),
        _ => decode(snapshot),
    }
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
