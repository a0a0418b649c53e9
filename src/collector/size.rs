//! What a session's state takes of memory, as `limits.session_bytes` and `limits.state_bytes` count it.
//!
//! An upper bound, and a function of the facts alone: a list counts as if it had just grown, so that a session restored
//! from its snapshots counts as the one they were taken of, whatever was allocated on the way.

use super::fact::Fact;
use super::head::Head;
use super::received::Moment;
use super::response::ResponseFacts;
use super::session::SessionCollector;
use super::stream_start::Settled;
use super::waiting::{ROOM, Waiting};
use super::windowed::{Metrics, Windowed};
use crate::ids::ResponseId;
use crate::wire::StageSnapshot;

/// The counts of an id that is shared.
const SHARED: usize = 2 * size_of::<usize>();

/// What one of a session's responses takes.
const RESPONSE_BYTES: usize = size_of::<ResponseFacts>();

/// What its place by id takes, where there are many; the table is half full at worst.
const BY_ID_BYTES: usize = 2 * size_of::<(ResponseId, u32)>() + 2;

/// The places of a list that has just grown to `len`: the first one is alone.
fn places(len: usize) -> usize {
    if len <= 1 { len } else { (2 * len).max(4) }
}

/// What an allocation takes: as glibc has it, whole sixteens with a length of their own.
fn heap(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + size_of::<usize>()).next_multiple_of(16).max(32) }
}

impl SessionCollector {
    /// Bytes that the session takes at most.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let head = self.head.heap_bytes();
        heap(size_of::<Self>()) + heap(SHARED + self.id.as_str().len()) + head + self.grown_bytes()
    }

    /// Bytes of them that come with its events: responses, facts that wait, names. Labels do not count here.
    #[must_use]
    pub fn grown_bytes(&self) -> usize {
        let count = self.responses.len();
        let responses = heap(places(count) * RESPONSE_BYTES);
        let by_id = if self.by_id.is_some() { heap(places(count) * BY_ID_BYTES) } else { 0 };
        let waiting = heap(self.waiting.facts().len().next_multiple_of(4) * size_of::<Fact>());
        self.head.names_bytes() + responses + by_id + waiting + self.parts_bytes
    }

    /// What its responses and the facts that wait take beside their places. `parts_bytes` says the same without looking at
    /// each.
    pub(super) fn measure_parts(&self) -> usize {
        let responses: usize = self.responses.iter().map(ResponseFacts::heap_bytes).sum();
        responses + self.waiting.heap_bytes()
    }

    /// Whether so many more bytes leave it below `session_bytes`.
    pub(super) fn has_room(&self, bytes: usize, session_bytes: usize) -> bool {
        self.state_bytes() + bytes <= session_bytes
    }
}

impl Head {
    fn heap_bytes(&self) -> usize {
        let labels = [&self.run_id, &self.model, &self.created_model];
        let sample = self.sample.as_deref();
        let of_sample = sample.into_iter().flat_map(|sample| [&sample.split, &sample.id]);
        let close_reason = self.ended.as_ref().map(|end| &end.close_reason);
        let texts = labels.into_iter().chain(of_sample).chain(close_reason).flatten().map(|text| heap(text.len()));
        let end = self.ended.as_ref().map_or(0, |end| heap(size_of_val(&**end)));
        let settled = self.start.settled.as_ref().map_or(0, |_| heap(size_of::<Settled>()));
        let sample = sample.map_or(0, |sample| heap(size_of_val(sample)));
        texts.sum::<usize>() + end + settled + sample
    }

    fn names_bytes(&self) -> usize {
        self.tallies.errors.heap_bytes() + self.tallies.overlap.heap_bytes()
    }
}

impl ResponseFacts {
    /// Bytes that it takes beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let before = self.before_window.as_ref();
        let before = before.map_or(0, |before| heap(size_of::<Windowed>()) + before.heap_bytes());
        let onset = self.speech_onset.as_ref().map_or(0, |_| heap(size_of::<Moment>()));
        heap(SHARED + self.id.as_str().len()) + self.in_window.heap_bytes() + before + onset
    }
}

impl Windowed {
    fn heap_bytes(&self) -> usize {
        self.metrics.as_ref().map_or(0, |metrics| {
            let stages = metrics.stages.iter().map(|stage| stage_bytes(&stage.id, &stage.snapshot));
            let origin = self.server_origin().map_or(0, |origin| heap(origin.heap_bytes()));
            heap(size_of::<Metrics>()) + heap(size_of_val(&metrics.stages[..])) + stages.sum::<usize>() + origin
        })
    }
}

/// What another response takes at most, its id apart: two, for the list may have to grow.
pub(super) const ANOTHER_RESPONSE_BYTES: usize = 2 * (RESPONSE_BYTES + BY_ID_BYTES);

/// Facts that wait, as far as their number is bounded and not their size.
const _: () = assert!(ROOM * size_of::<Fact>() <= 4 << 10);

impl Waiting {
    /// Bytes that they take beside their places.
    pub(super) fn heap_bytes(&self) -> usize {
        self.facts().iter().map(Fact::heap_bytes).sum()
    }
}

impl Fact {
    /// Bytes that it takes beside itself.
    pub(super) fn heap_bytes(&self) -> usize {
        self.metrics.as_ref().map_or(0, |reported| {
            let stages = reported.stages.iter().map(|(id, snapshot)| stage_bytes(id, snapshot));
            let request = reported.request.as_ref().map_or(0, |request| heap(request.heap_bytes()));
            heap(size_of_val(&**reported)) + heap(size_of_val(&reported.stages[..])) + stages.sum::<usize>() + request
        })
    }
}

/// What a stage takes beside its place. Its lists are as long as they have to be.
fn stage_bytes(id: &str, snapshot: &StageSnapshot) -> usize {
    heap(id.len()) + snapshot.heap_bytes() + 4 * heap(1)
}
