//! A session as the changelog keeps it: a record for its head, and one for each response that changed.
//!
//! So a commit costs what changed since the last, not the session's history. Snapshots hold no text and no audio.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::response::ResponseFacts;
use super::session::{Head, SessionCollector};
use crate::fault::{self, Fault};
use crate::ids::SessionId;

/// The version that snapshots are written in, their first byte.
///
/// | version | |
/// |---|---|
/// | 1 | the first |
/// | 2 | the task's time became a checkpoint; all else is as in 1 |
pub const SNAPSHOT_VERSION: u8 = 2;

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
}

/// The changed parts of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub head: Vec<u8>,
    /// Index and snapshot of each response that changed.
    pub responses: Vec<(u32, Vec<u8>)>,
}

impl SessionCollector {
    /// The parts that changed since the last call.
    pub fn snapshot(&mut self) -> Snapshot {
        let responses = std::mem::take(&mut self.dirty)
            .into_iter()
            .skip(usize::from(fault::is_on(Fault::SkipDirtyResponse)))
            .map(|index| (index, encode(&self.responses[index as usize])))
            .collect();
        if fault::is_on(Fault::ForgetSequence) {
            return Snapshot { head: encode(&Head { last_seq: None, ..self.head.clone() }), responses };
        }
        Snapshot { head: encode(&self.head), responses }
    }

    /// A session from its snapshots; `responses` by ascending index.
    ///
    /// # Errors
    /// When a snapshot is of a newer version, damaged or missing.
    pub fn restore<'a>(
        id: SessionId,
        head: &[u8],
        responses: impl IntoIterator<Item = (u32, &'a [u8])>,
    ) -> Result<Self, SnapshotError> {
        let head: Head = decode(head)?;
        let mut restored = Vec::new();
        for (index, snapshot) in responses {
            if index as usize != restored.len() {
                break;
            }
            restored.push(decode::<ResponseFacts>(snapshot)?);
        }
        if restored.len() < head.responses as usize {
            return Err(SnapshotError::MissingResponse { index: restored.len() as u32, of: head.responses });
        }
        let by_id = restored.iter().zip(0..).map(|(response, index)| (response.id.clone(), index)).collect();
        Ok(Self { id, head, responses: restored, by_id, dirty: Default::default() })
    }

    /// How many responses it has snapshots of, once [`Self::snapshot`] was taken.
    #[must_use]
    pub fn response_count(&self) -> u32 {
        self.head.responses
    }
}

/// A value behind its version byte.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_extend(value, vec![SNAPSHOT_VERSION]).expect("facts can be written to memory")
}

/// The version that a snapshot was written in.
pub(crate) fn version(snapshot: &[u8]) -> Option<u8> {
    snapshot.first().copied()
}

/// The value behind its version byte.
pub(crate) fn decode<T: DeserializeOwned>(snapshot: &[u8]) -> Result<T, SnapshotError> {
    match snapshot.split_first() {
        Some((1..=SNAPSHOT_VERSION, rest)) => {
            postcard::from_bytes(rest).map_err(|e| SnapshotError::Damaged(e.to_string()))
        }
        Some((version, _)) => Err(SnapshotError::UnknownVersion(*version)),
        None => Err(SnapshotError::Damaged("it is empty".into())),
    }
}
