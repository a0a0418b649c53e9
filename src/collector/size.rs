//! What a session's state takes of memory, as `limits.session_bytes` and `limits.state_bytes` count it.
//!
//! An upper bound, and a function of the facts alone: a list counts as if it had just grown, so that a session restored
//! from its snapshots counts as the one they were taken of, whatever was allocated on the way.

use super::response::{ResponseFacts, WindowedFacts};
use super::session::{Head, SessionCollector};
use super::stream_start::HeldFacts;
use crate::ids::ResponseId;
use crate::wire::StageSnapshot;

/// A list that grows holds room for as much again.
const GROWN: usize = 2;

/// One of a session's responses: itself, its place by id, and its place among those that changed.
const RESPONSE_BYTES: usize =
    GROWN * (size_of::<ResponseFacts>() + size_of::<(ResponseId, u32)>() + size_of::<u32>()) + ALLOCATION;

/// What an allocator, and the counts of an id that is shared, add to what is allocated.
const ALLOCATION: usize = 32;

impl SessionCollector {
    /// Bytes that the session takes at most.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        size_of::<Self>() + ALLOCATION + self.id.as_str().len() + self.head.heap_bytes() + self.parts_bytes
    }

    /// Bytes of them that have come with its events: responses, facts that wait, names.
    #[must_use]
    pub fn grown_bytes(&self) -> usize {
        self.parts_bytes + self.head.names_bytes()
    }

    /// What its responses and the facts that wait take; kept in `parts_bytes` from then on.
    pub(super) fn measure_parts(&self) -> usize {
        let responses: usize = self.responses.iter().map(ResponseFacts::state_bytes).sum();
        let held: usize = self.head.start.held().iter().map(HeldFacts::state_bytes).sum();
        responses + held
    }
}

impl Head {
    fn heap_bytes(&self) -> usize {
        let labels = [&self.run_id, &self.model, &self.created_model, &self.split, &self.sample_id];
        let close_reason = self.ended.as_ref().map(|end| &end.close_reason);
        let texts = labels.into_iter().chain(close_reason).flatten();
        texts.map(|text| text.len() + ALLOCATION).sum::<usize>() + self.names_bytes()
    }

    fn names_bytes(&self) -> usize {
        self.tallies.errors.heap_bytes() + self.tallies.overlap.heap_bytes()
    }
}

impl ResponseFacts {
    /// Bytes that it takes in its session.
    pub(super) fn state_bytes(&self) -> usize {
        RESPONSE_BYTES + self.id.as_str().len() + stages_bytes(&self.stages) + self.server.heap_bytes()
    }
}

impl HeldFacts {
    /// Bytes that they take while they wait.
    pub(super) fn state_bytes(&self) -> usize {
        GROWN * size_of::<Self>() + self.facts.heap_bytes()
    }
}

impl WindowedFacts {
    /// Bytes that they take beside themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        stages_bytes(&self.stages) + self.request.as_ref().map_or(0, |request| request.heap_bytes())
    }
}

fn stages_bytes(stages: &[(String, StageSnapshot)]) -> usize {
    let each = GROWN * size_of::<(String, StageSnapshot)>();
    stages.iter().map(|(id, stage)| each + id.len() + stage.heap_bytes()).sum()
}
