//! The changelog's keys and values: what a partition's state is made of.
//!
//! | key | value |
//! |---|---|
//! | `T` | the [checkpoint](Checkpoint): the task's time, the offset and what else belongs to this state |
//! | `S` session id | a session's head |
//! | `R` index, session id | one of its responses |
//! | `H` index, session id | some of its facts that wait for the stream start |
//! | `C` session id | the marker of a finished session |

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::batch::ChangelogEntry;
use super::checkpoint::{Checkpoint, RestoreError};
use super::clock::TaskClock;
use crate::collector::{SessionCollector, decode, encode, version};
use crate::ids::SessionId;
use crate::time::Timestamp;

/// What stays of a finished session, so that its late events do not open it anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClosedMarker {
    /// When it may be forgotten, by the task's time.
    pub until: Timestamp,
}

/// A key of the changelog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key<'a> {
    Checkpoint,
    Session(&'a str),
    Response(&'a str, u32),
    Held(&'a str, u32),
    Closed(&'a str),
}

impl<'a> Key<'a> {
    /// The key's bytes.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Checkpoint => b"T".to_vec(),
            Self::Session(id) => [b"S", id.as_bytes()].concat(),
            Self::Response(id, index) => [b"R", &index.to_be_bytes()[..], id.as_bytes()].concat(),
            Self::Held(id, index) => [b"H", &index.to_be_bytes()[..], id.as_bytes()].concat(),
            Self::Closed(id) => [b"C", id.as_bytes()].concat(),
        }
    }

    fn decode(key: &'a [u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        match kind {
            b'T' if rest.is_empty() => Some(Self::Checkpoint),
            b'S' => Some(Self::Session(str::from_utf8(rest).ok()?)),
            b'C' => Some(Self::Closed(str::from_utf8(rest).ok()?)),
            b'R' | b'H' => {
                let (index, id) = rest.split_first_chunk::<4>()?;
                let (id, index) = (str::from_utf8(id).ok()?, u32::from_be_bytes(*index));
                Some(if *kind == b'R' { Self::Response(id, index) } else { Self::Held(id, index) })
            }
            _ => None,
        }
    }

    pub(super) fn put<T: Serialize>(self, value: &T) -> ChangelogEntry {
        ChangelogEntry { key: self.encode(), value: Some(encode(value)) }
    }

    pub(super) fn put_bytes(self, value: Vec<u8>) -> ChangelogEntry {
        ChangelogEntry { key: self.encode(), value: Some(value) }
    }

    pub(super) fn tombstone(self) -> ChangelogEntry {
        ChangelogEntry { key: self.encode(), value: None }
    }
}

/// The changelog as it was read, the last value of each key.
#[derive(Debug, Default)]
pub struct ChangelogState {
    pub(super) clock: TaskClock,
    pub(super) closed: BTreeMap<SessionId, ClosedMarker>,
    /// `None` also where version 1 wrote it, which knew the time only.
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) heads: BTreeMap<SessionId, Vec<u8>>,
    responses: Parts,
    held: Parts,
}

/// Snapshots of parts of sessions, by index.
#[derive(Debug, Default)]
struct Parts(HashMap<SessionId, BTreeMap<u32, Vec<u8>>>);

impl Parts {
    fn apply(&mut self, id: &str, index: u32, snapshot: Option<&[u8]>) {
        if let Some(snapshot) = snapshot {
            self.0.entry(id.into()).or_default().insert(index, snapshot.to_vec());
        } else if let Some(parts) = self.0.get_mut(id) {
            parts.remove(&index);
            if parts.is_empty() {
                self.0.remove(id);
            }
        }
    }

    fn take(&mut self, id: &SessionId) -> BTreeMap<u32, Vec<u8>> {
        self.0.remove(id).unwrap_or_default()
    }
}

fn slices(parts: &BTreeMap<u32, Vec<u8>>) -> impl Iterator<Item = (u32, &[u8])> {
    parts.iter().map(|(index, snapshot)| (*index, snapshot.as_slice()))
}

impl ChangelogState {
    /// Takes the next record of the changelog.
    ///
    /// # Errors
    /// When the record is not this program's, or of a newer version.
    pub fn apply(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RestoreError> {
        let unknown = || RestoreError::UnknownKey(key.first().map(|b| char::from(*b)));
        match (Key::decode(key).ok_or_else(unknown)?, value) {
            (Key::Checkpoint, Some(value)) if version(value) == Some(1) => {
                self.clock = TaskClock::at(Some(parse("the task's time", value)?));
                self.checkpoint = None;
            }
            (Key::Checkpoint, value) => {
                let what = "the checkpoint";
                let damaged = |source| RestoreError::Snapshot { what, source };
                self.checkpoint = value.map(|value| Checkpoint::decode(value).map_err(damaged)).transpose()?;
                self.clock = self.checkpoint.as_ref().map(|checkpoint| checkpoint.clock.clone()).unwrap_or_default();
            }
            (Key::Session(id), Some(value)) => drop(self.heads.insert(id.into(), value.to_vec())),
            (Key::Session(id), None) => drop(self.heads.remove(id)),
            (Key::Response(id, index), value) => self.responses.apply(id, index, value),
            (Key::Held(id, index), value) => self.held.apply(id, index, value),
            (Key::Closed(id), Some(value)) => {
                self.closed.insert(id.into(), parse("the marker of a finished session", value)?);
            }
            (Key::Closed(id), None) => drop(self.closed.remove(id)),
        }
        Ok(())
    }

    /// The open sessions, each in place of its snapshots.
    ///
    /// # Errors
    /// Where a snapshot is damaged or one of a session's responses is missing.
    pub fn into_sessions(self) -> impl Iterator<Item = Result<SessionCollector, RestoreError>> {
        let Self { heads, mut held, mut responses, .. } = self;
        heads.into_iter().map(move |(id, head)| {
            let [held, responses] = [&mut held, &mut responses].map(|parts| parts.take(&id));
            SessionCollector::restore(id, &head, slices(&held), slices(&responses))
                .map_err(|source| RestoreError::Snapshot { what: "an open session", source })
        })
    }
}

fn parse<T: serde::de::DeserializeOwned>(what: &'static str, value: &[u8]) -> Result<T, RestoreError> {
    decode(value).map_err(|source| RestoreError::Snapshot { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::{SNAPSHOT_VERSION, SnapshotError};

    #[test]
    fn keys_survive_the_way_there_and_back() {
        for key in [
            Key::Checkpoint,
            Key::Session("R"),
            Key::Session(""),
            Key::Response("s", u32::MAX),
            Key::Held("s", 1),
            Key::Closed("T"),
        ] {
            assert_eq!(Key::decode(&key.encode()), Some(key));
        }
    }

    #[test]
    fn a_record_of_another_program_stops_the_restore() {
        let mut state = ChangelogState::default();
        assert_eq!(state.apply(b"x1", Some(b"")), Err(RestoreError::UnknownKey(Some('x'))));
        let newer = SnapshotError::UnknownVersion(SNAPSHOT_VERSION + 1);
        let expected = RestoreError::Snapshot { what: "the checkpoint", source: newer };
        assert_eq!(state.apply(b"T", Some(&[SNAPSHOT_VERSION + 1, 0])), Err(expected));
    }

    #[test]
    fn the_last_value_of_a_key_rules() {
        let mut state = ChangelogState::default();
        let put = |until| Key::Closed("s").put(&ClosedMarker { until: Timestamp(until) });
        for entry in [put(1), put(2), Key::Closed("gone").put(&ClosedMarker { until: Timestamp(3) })] {
            state.apply(&entry.key, entry.value.as_deref()).expect("applies");
        }
        state.apply(&Key::Closed("gone").encode(), None).expect("applies");
        let expected = BTreeMap::from([(SessionId::from("s"), ClosedMarker { until: Timestamp(2) })]);
        assert_eq!(state.closed, expected);
    }
}
