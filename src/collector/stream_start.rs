//! When the stream started, and what has to wait until that is known (contract.md section 2).

use serde::{Deserialize, Serialize, Serializer};

use super::response::WindowedFacts;
use super::source::StreamStartSource;
use crate::wire::Kind;

/// The candidates seen so far, and the choice once it is made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct StreamStart {
    /// First receive time of each source, best source first.
    pub(super) marker: Option<f64>,
    pub(super) input_audio_append: Option<f64>,
    pub(super) session_created: Option<f64>,
    pub(super) first_event: Option<f64>,
    pub(super) chosen: Option<Chosen>,
    /// Kept in records of their own since version 3: a head that grew with them would be written whole at every commit.
    #[serde(serialize_with = "nothing")]
    pub(super) held: Vec<HeldFacts>,
    pub(super) held_cost: usize,
}

fn nothing<S: Serializer>(_: &[HeldFacts], serializer: S) -> Result<S::Ok, S::Error> {
    [(); 0].as_slice().serialize(serializer)
}

/// The source that rules, and its receive time in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Chosen {
    pub source: StreamStartSource,
    pub at: f64,
}

/// The facts of one event, waiting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldFacts {
    pub at: f64,
    pub ordinal: u64,
    /// Index of the response in its session.
    pub response: u32,
    pub facts: WindowedFacts,
}

impl StreamStart {
    /// The choice, once made; it is never taken back.
    #[must_use]
    pub fn chosen(&self) -> Option<Chosen> {
        self.chosen
    }

    /// Takes note of an event.
    pub fn observe(&mut self, kind: Kind, at: f64) {
        if self.chosen.is_some() {
            return;
        }
        self.first_event.get_or_insert(at);
        match kind {
            Kind::StreamStart => drop(self.marker.get_or_insert(at)),
            Kind::InputAudioAppend => drop(self.input_audio_append.get_or_insert(at)),
            Kind::SessionCreated => drop(self.session_created.get_or_insert(at)),
            // No other event can start a stream.
            _ => {}
        }
    }

    /// Whether the best of the sources to wait for, or a better one, is there.
    #[must_use]
    pub fn is_certain(&self, sources: &[StreamStartSource]) -> bool {
        match (sources.iter().min(), self.best_known()) {
            (Some(awaited), Some(known)) => known.source <= *awaited,
            (None, known) => known.is_some(),
            (Some(_), None) => false,
        }
    }

    /// Keeps an event's facts until the choice is made.
    pub fn hold(&mut self, facts: HeldFacts) {
        self.held_cost += facts.facts.cost();
        self.held.push(facts);
    }

    /// The facts that wait, in their order of arrival.
    #[must_use]
    pub fn held(&self) -> &[HeldFacts] {
        &self.held
    }

    /// Takes facts that were held before a restore; whether all of them are there is for [`Self::is_whole`] to say.
    pub fn restore_held(&mut self, facts: Vec<HeldFacts>) {
        self.held.extend(facts);
    }

    /// Whether the facts are those whose cost was counted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.held.iter().map(|held| held.facts.cost()).fold(0, usize::saturating_add) == self.held_cost
    }

    /// Whether there was any event, as in every session: then there is something to choose.
    #[must_use]
    pub fn has_an_event(&self) -> bool {
        self.chosen.is_some() || self.first_event.is_some()
    }

    /// What is held, in events.
    #[must_use]
    pub fn held_cost(&self) -> usize {
        self.held_cost
    }

    /// Chooses the best source known, and returns the facts that waited, in their order of arrival.
    ///
    /// Without any event there is nothing to choose.
    pub fn settle(&mut self) -> Vec<HeldFacts> {
        if self.chosen.is_none() {
            self.chosen = self.best_known();
        }
        self.held_cost = 0;
        std::mem::take(&mut self.held)
    }

    fn best_known(&self) -> Option<Chosen> {
        [
            (StreamStartSource::Marker, self.marker),
            (StreamStartSource::InputAudioAppend, self.input_audio_append),
            (StreamStartSource::SessionCreated, self.session_created),
            (StreamStartSource::FirstEvent, self.first_event),
        ]
        .into_iter()
        .find_map(|(source, at)| at.map(|at| Chosen { source, at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[StreamStartSource] = &StreamStartSource::CONFIGURABLE;

    #[test]
    fn a_marker_beats_an_append_that_came_before_it() {
        let mut start = StreamStart::default();
        start.observe(Kind::SessionCreated, 1.0);
        start.observe(Kind::InputAudioAppend, 2.0);
        assert!(!start.is_certain(ALL));
        start.observe(Kind::StreamStart, 1.5);
        assert!(start.is_certain(ALL));
        start.settle();
        assert_eq!(start.chosen(), Some(Chosen { source: StreamStartSource::Marker, at: 1.5 }));
    }

    #[test]
    fn only_the_sources_named_are_waited_for() {
        let mut start = StreamStart::default();
        start.observe(Kind::Speak, 1.0);
        assert!(!start.is_certain(&[StreamStartSource::SessionCreated]));
        assert!(start.is_certain(&[]));
        start.observe(Kind::SessionCreated, 2.0);
        assert!(start.is_certain(&[StreamStartSource::SessionCreated]));
        assert!(!start.is_certain(&[StreamStartSource::SessionCreated, StreamStartSource::InputAudioAppend]));
    }

    #[test]
    fn a_choice_is_never_taken_back() {
        let mut start = StreamStart::default();
        start.observe(Kind::Speak, 1.0);
        start.settle();
        start.observe(Kind::StreamStart, 5.0);
        start.settle();
        assert_eq!(start.chosen(), Some(Chosen { source: StreamStartSource::FirstEvent, at: 1.0 }));
    }
}
