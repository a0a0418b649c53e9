//! The finished sessions of a partition, as far as they are remembered.

use std::collections::{BTreeSet, HashMap};

use super::changelog::ClosedMarker;
use crate::ids::SessionId;
use crate::time::Timestamp;

/// A marker by its id, and by its time; a table and a tree are half full at worst.
const MARKER_BYTES: usize = 2 * (size_of::<(SessionId, ClosedMarker)>() + size_of::<(Timestamp, SessionId)>()) + 56;

/// Markers that keep late events from opening their sessions anew.
#[derive(Debug, Default)]
pub(super) struct ClosedSessions {
    markers: HashMap<SessionId, ClosedMarker>,
    by_time: BTreeSet<(Timestamp, SessionId)>,
    bytes: usize,
}

impl ClosedSessions {
    pub fn insert(&mut self, id: SessionId, marker: ClosedMarker) {
        self.remove(id.as_str());
        self.bytes += marker_bytes(&id);
        self.by_time.insert((marker.until, id.clone()));
        self.markers.insert(id, marker);
    }

    /// Forgets a session; whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some((id, marker)) = self.markers.remove_entry(id) else { return false };
        self.bytes -= marker_bytes(&id);
        self.by_time.remove(&(marker.until, id));
        true
    }

    /// Whether an event of this session comes late.
    pub fn has(&self, id: &str, now: Timestamp) -> bool {
        self.markers.get(id).is_some_and(|marker| marker.until > now)
    }

    /// Forgets the oldest one whose time is up.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<SessionId> {
        let (until, _) = self.by_time.first()?;
        if *until <= now { self.pop_oldest().map(|(id, _)| id) } else { None }
    }

    /// Forgets the oldest one.
    pub fn pop_oldest(&mut self) -> Option<(SessionId, ClosedMarker)> {
        let (_, id) = self.by_time.pop_first()?;
        self.bytes -= marker_bytes(&id);
        self.markers.remove_entry(&id)
    }

    pub fn len(&self) -> usize {
        self.markers.len()
    }

    /// Bytes that they take at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn marker_bytes(id: &SessionId) -> usize {
    MARKER_BYTES + id.as_str().len()
}
