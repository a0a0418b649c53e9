//! What a session's state takes of memory, as `limits.session_bytes` and `limits.state_bytes` count it.
//!
//! An upper bound, and a function of the facts alone: a list counts as if it had just grown, so that a session restored
//! from its snapshots counts as the one they were taken of, whatever was allocated on the way.

use super::response::{ResponseFacts, WindowedFacts};
use super::session::{Head, SessionCollector};
use super::stream_start::HeldFacts;
use crate::ids::ResponseId;
use crate::wire::StageSnapshot;

/// What an allocator, and the counts of an id that is shared, add to what is allocated.
const ALLOCATION: usize = 32;

/// What one of a session's responses takes: itself, its place by id, and its place among those that changed.
const RESPONSE_BYTES: usize = size_of::<ResponseFacts>() + size_of::<(ResponseId, u32)>() + 2 * size_of::<u32>();

/// The places of a list that has just grown to `len`.
fn places(len: usize) -> usize {
    if len == 0 { 0 } else { (2 * len).max(4) }
}

fn heap(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + ALLOCATION }
}

impl SessionCollector {
    /// Bytes that the session takes at most.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let head = self.head.heap_bytes();
        size_of::<Self>() + ALLOCATION + heap(self.id.as_str().len()) + head + self.grown_bytes()
    }

    /// Bytes of them that come with its events: responses, facts that wait, names. Labels do not count here.
    #[must_use]
    pub fn grown_bytes(&self) -> usize {
        let responses = heap(places(self.responses.len()) * RESPONSE_BYTES);
        let held = heap(places(self.head.start.held().len()) * size_of::<HeldFacts>());
        self.head.names_bytes() + responses + held + self.parts_bytes
    }

    /// What its responses and the facts that wait take beside their places. `parts_bytes` says the same without looking at
    /// each.
    pub(super) fn measure_parts(&self) -> usize {
        let responses: usize = self.responses.iter().map(ResponseFacts::heap_bytes).sum();
        let held: usize = self.head.start.held().iter().map(|held| held.facts.heap_bytes()).sum();
        responses + held
    }

    /// Whether so many more bytes leave it below `session_bytes`.
    pub(super) fn has_room(&self, bytes: usize, session_bytes: usize) -> bool {
        self.state_bytes() + bytes <= session_bytes
    }
}

impl Head {
    fn heap_bytes(&self) -> usize {
        let labels = [&self.run_id, &self.model, &self.created_model, &self.split, &self.sample_id];
        let close_reason = self.ended.as_ref().map(|end| &end.close_reason);
        labels.into_iter().chain(close_reason).flatten().map(|text| heap(text.len())).sum()
    }

    fn names_bytes(&self) -> usize {
        self.tallies.errors.heap_bytes() + self.tallies.overlap.heap_bytes()
    }
}

impl ResponseFacts {
    /// Bytes that it takes beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        heap(self.id.as_str().len()) + stages_bytes(&self.stages) + heap(self.server.heap_bytes())
    }
}

/// What another response takes at most, its id apart: two, for the list may have to grow.
pub(super) const ANOTHER_RESPONSE_BYTES: usize = 2 * RESPONSE_BYTES;

impl HeldFacts {
    /// Bytes that it takes, and more than its snapshot does.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.facts.heap_bytes()
    }
}

impl WindowedFacts {
    /// Bytes that they take beside themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        stages_bytes(&self.stages) + self.request.as_ref().map_or(0, |request| heap(request.heap_bytes()))
    }
}

/// Lists of stages are made as long as they have to be.
fn stages_bytes(stages: &[(String, StageSnapshot)]) -> usize {
    let each = |(id, stage): &(String, StageSnapshot)| heap(id.len()) + stage.heap_bytes() + 4 * ALLOCATION;
    heap(size_of_val(stages)) + stages.iter().map(each).sum::<usize>()
}
