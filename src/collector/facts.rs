//! How a session's events become facts of its responses (contract.md sections 2 and 3).

use super::fact::Fact;
use super::received::Moment;
use super::response::{FinalStatus, ResponseFacts};
use super::session::SessionCollector;
use super::settings::{Limits, Settings};
use super::size::ANOTHER_RESPONSE_BYTES;
use super::stream_start::Change;
use super::waiting::{ROOM, ROOM_BYTES};
use crate::ids::ResponseId;
use crate::wire::{Event, Kind, StageLimits, Text, decoded_len};

/// So many responses are found without a table: most sessions have no more.
const FOUND_BY_LOOKING: usize = 8;

impl SessionCollector {
    pub(super) fn take_facts(&mut self, event: &Event<'_>, moment: Moment, settings: &Settings) {
        // An empty id shadows the response's own and is never known, so it has no facts.
        let Some(id) = event.response_id.filter(|id| !id.is_empty()) else { return };
        let limits = &settings.limits;
        let bytes = match event.kind {
            Kind::AudioDelta => event.audio_payload().and_then(decoded_len).unwrap_or(0),
            _ => 0,
        };
        let stage_limits = StageLimits {
            stages: limits.stages,
            interval_values: limits.interval_values,
            text_bytes: limits.text_bytes,
        };
        let (mut fact, truncated) = Fact::of(event, moment, self.head.duration_of_bytes_ms(bytes), stage_limits);
        self.head.truncated |= truncated;
        if fact.metrics.is_some() && !self.has_room(fact.heap_bytes(), limits.session_bytes) {
            fact.metrics = None;
            self.head.truncated = true;
        }
        let id = id.decode();
        let is_new_fact = match event.kind {
            Kind::ResponseDone => true,
            // Without any other fact it is no reason to know a response.
            Kind::ResponseCancel => !fact.is_empty() || self.index_of(&id).is_some(),
            _ => !fact.is_empty(),
        };
        if !is_new_fact {
            return;
        }
        let Some(index) = self.response(&id, limits) else { return };
        let (next_index, speech_onset) = (self.head.known, self.head.speech_onset);
        self.change(index, |response| {
            match event.kind {
                Kind::ResponseCreated => drop(response.request_index.get_or_insert(next_index)),
                Kind::ResponseDone => {
                    let status = FinalStatus::of(event.status.map(Text::decode).as_deref());
                    response.end(moment, status, speech_onset);
                }
                Kind::ResponseCancel => drop(response.ended.get_or_insert(moment)),
                Kind::AudioDelta => response.bytes += bytes,
                // Its facts are in the window or nowhere.
                _ => {}
            }
            false
        });
        self.head.known += u32::from(self.responses[index as usize].request_index == Some(next_index));
        if !fact.is_empty() {
            fact.response = index;
            self.hold(fact, limits);
        }
    }

    /// Lets a fact wait until it is certain whether it is in the window, as far as there is room.
    fn hold(&mut self, fact: Fact, limits: &Limits) {
        if self.head.start.is_certain() {
            return self.settle(fact, limits);
        }
        let is_large = fact.metrics.is_some();
        self.parts_bytes += fact.heap_bytes();
        if let Some(earliest) = self.waiting.hold(fact) {
            self.settle_waiting(earliest, limits);
        }
        while is_large
            && (self.waiting.heap_bytes() > ROOM_BYTES || !self.has_room(0, limits.session_bytes))
            && let Some(earliest) = self.waiting.take_earliest()
        {
            self.settle_waiting(earliest, limits);
        }
    }

    /// Settles all that waits, in the order in which it arrived.
    pub(super) fn settle_all(&mut self, limits: &Limits) {
        for fact in self.waiting.take_all() {
            self.settle_waiting(fact, limits);
        }
    }

    fn settle_waiting(&mut self, fact: Fact, limits: &Limits) {
        self.parts_bytes -= fact.heap_bytes();
        self.settle(fact, limits);
    }

    fn settle(&mut self, fact: Fact, limits: &Limits) {
        let is_in_window = self.head.start.settle(fact.moment);
        if is_in_window || !self.head.start.is_certain() {
            self.change(fact.response, |response| response.apply(fact, is_in_window, limits));
        }
    }

    /// Lets what is settled follow a better source of the stream start.
    pub(super) fn move_window(&mut self, change: Change, limits: &Limits) {
        let Some(best) = self.head.start.best().filter(|_| change != Change::Nothing) else { return };
        self.head.truncated |= change == Change::Cut;
        for index in 0..self.head.responses {
            self.change(index, |response| match change {
                Change::AllIn => response.take_in(limits),
                Change::AllOut => response.put_out(best.clock, limits),
                Change::Cut => {
                    response.in_window.cut(|moment| best.begins_before(*moment));
                    false
                }
                Change::Nothing => false,
            });
        }
    }

    /// Settles all that waits when the start becomes certain, and forgets what is before the window: nothing brings it back.
    pub(super) fn settle_for_good(&mut self, limits: &Limits) {
        self.settle_all(limits);
        self.head.start.settled = None;
        for index in 0..self.head.responses {
            if self.responses[index as usize].before_window.is_some() {
                self.change(index, |response| {
                    response.before_window = None;
                    false
                });
            }
        }
    }

    /// Settles what an earlier release let wait beyond the room there is now.
    pub(super) fn settle_surplus(&mut self, limits: &Limits) {
        while self.waiting.facts().len() > ROOM
            && let Some(earliest) = self.waiting.take_earliest()
        {
            self.settle_waiting(earliest, limits);
        }
    }

    /// Changes a response; `change` returns whether a limit cut off any of it.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut ResponseFacts) -> bool) {
        self.touch(index);
        let response = &mut self.responses[index as usize];
        self.parts_bytes -= response.heap_bytes();
        self.head.truncated |= change(response);
        self.parts_bytes += response.heap_bytes();
    }

    /// Takes note that a response changed.
    fn touch(&mut self, index: u32) {
        self.responses[index as usize].is_dirty = true;
        self.first_dirty = self.first_dirty.min(index);
    }

    /// The index of a response, which is made when it is new; `None` where a limit keeps it out.
    fn response(&mut self, id: &str, limits: &Limits) -> Option<u32> {
        if let Some(index) = self.index_of(id) {
            return Some(index);
        }
        let response = (self.responses.len() < limits.responses && id.len() <= limits.text_bytes)
            .then(|| ResponseFacts::new(ResponseId::from(id)))
            .filter(|response| self.has_room(ANOTHER_RESPONSE_BYTES + response.heap_bytes(), limits.session_bytes));
        let Some(response) = response else {
            self.head.truncated = true;
            return None;
        };
        let index = self.head.responses;
        self.head.responses += 1;
        self.parts_bytes += response.heap_bytes();
        if self.responses.is_empty() {
            // Many sessions have one only.
            self.responses.reserve_exact(1);
        }
        self.responses.push(response);
        self.index(index);
        Some(index)
    }

    fn index_of(&self, id: &str) -> Option<u32> {
        match &self.by_id {
            Some(by_id) => by_id.get(id).copied(),
            None => self.responses.iter().rposition(|response| response.id.as_str() == id).map(|index| index as u32),
        }
    }

    /// Makes a response of this index, and all before it, be found.
    pub(super) fn index(&mut self, index: u32) {
        if let Some(by_id) = &mut self.by_id {
            by_id.insert(self.responses[index as usize].id.clone(), index);
        } else if self.responses.len() > FOUND_BY_LOOKING {
            let by_id = self.responses.iter().zip(0..).map(|(response, index)| (response.id.clone(), index));
            self.by_id = Some(Box::new(by_id.collect()));
        }
    }
}
