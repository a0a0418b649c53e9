//! The state machine of one session: events and time in, facts and deadlines out.
//!
//! ```text
//!            session.closed / session.expired            ended_at + grace
//!   Open ------------------------------------> Ending -------------------> bundle (closed, expired)
//!     | last_event_at + idle_timeout ------------------------------------> bundle (idle_timeout)
//!     | opened_at + max_duration ----------------------------------------> bundle (max_duration)
//!     | the capture ends ------------------------------------------------> bundle (end_of_input)
//!     ` others need its room --------------------------------------------> bundle (evicted)
//! ```

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::end::EndReason;
use super::response::{AudioFact, FinalStatus, Moment, ResponseFacts, WindowedFacts};
use super::settings::{Limits, Settings};
use super::size::ANOTHER_RESPONSE_BYTES;
use super::source::ReceiveClock;
use super::stream_start::{Chosen, HeldFacts, StreamStart};
use super::tallies::Tallies;
use crate::ids::{Offset, ResponseId, SessionId};
use crate::numeric::r3;
use crate::time::Timestamp;
use crate::wire::{Event, Kind, RequestMetrics, StageLimits, StageMetrics, Text, cut, decoded_len};

/// The sample rate until an audio event tells another.
const DEFAULT_SAMPLE_RATE_HZ: f64 = 24000.0;

/// How an event reached its session.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The receive time that metrics are made of, in seconds; finite.
    pub received_at_s: f64,
    pub clock: ReceiveClock,
    /// The record's own timestamp.
    pub timestamp: Option<Timestamp>,
    /// The session's time, which its deadlines are measured by: the task's, or the record's own where that is later and can be
    /// believed.
    pub now: Timestamp,
    pub offset: Offset,
    pub labels: Labels<'a>,
}

/// What producers may say of a session in headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Labels<'a> {
    pub run_id: Option<&'a str>,
    pub model: Option<&'a str>,
    pub split: Option<&'a str>,
    pub sample_id: Option<&'a str>,
}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    Accepted,
    /// Its `server_event_seq` was seen already.
    Duplicate,
}

/// One session's facts: a head of constant size, and one entry per response.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionCollector {
    pub(super) id: SessionId,
    pub(super) head: Head,
    pub(super) responses: Vec<ResponseFacts>,
    pub(super) by_id: HashMap<ResponseId, u32>,
    /// Responses that changed since their last snapshot.
    pub(super) dirty: BTreeSet<u32>,
    pub(super) held: HeldSnapshots,
    /// What `responses` and the facts that wait take beside their places, in bytes.
    pub(super) parts_bytes: usize,
}

/// How much of the facts that wait for the stream start is in snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct HeldSnapshots {
    pub facts: usize,
    /// Snapshots that hold them, each those of one commit.
    pub count: u32,
}

/// Everything of a session but its responses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Head {
    pub opened_at: Timestamp,
    pub last_event_at: Timestamp,
    pub ended: Option<End>,
    pub first_offset: Offset,
    pub last_offset: Offset,
    pub first_event: Option<Timestamp>,
    pub last_event: Option<Timestamp>,
    pub clock: ReceiveClock,
    pub run_id: Option<String>,
    pub model: Option<String>,
    /// From `session.created`; a header's rules.
    pub created_model: Option<String>,
    pub split: Option<String>,
    pub sample_id: Option<String>,
    pub last_seq: Option<i128>,
    /// In Hz, the last one seen.
    pub sample_rate_hz: Option<f64>,
    /// Receive times, smallest and largest; `None` where an earlier release saw the first events.
    pub received: Option<(f64, f64)>,
    /// Receive time of the last `input_audio_buffer.speech_started`.
    pub speech_onset: Option<f64>,
    pub start: StreamStart,
    pub tallies: Tallies,
    /// Responses with an index: the next one's.
    pub known: u32,
    /// Length of `responses`, so that a restore can tell whether one is missing.
    pub responses: u32,
    pub truncated: bool,
}

/// A session's own end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct End {
    pub at: Timestamp,
    pub reason: EndReason,
    /// The event's own reason.
    pub close_reason: Option<String>,
}

impl SessionCollector {
    /// Opens a session with its first event, which is then to be handled.
    #[must_use]
    pub fn open(id: SessionId, arrival: &Arrival<'_>) -> Self {
        let head = Head {
            opened_at: arrival.now,
            last_event_at: arrival.now,
            ended: None,
            first_offset: arrival.offset,
            last_offset: arrival.offset,
            first_event: arrival.timestamp,
            last_event: arrival.timestamp,
            clock: arrival.clock,
            run_id: None,
            model: None,
            created_model: None,
            split: None,
            sample_id: None,
            last_seq: None,
            sample_rate_hz: None,
            received: Some((arrival.received_at_s, arrival.received_at_s)),
            speech_onset: None,
            start: StreamStart::default(),
            tallies: Tallies::default(),
            known: 0,
            responses: 0,
            truncated: false,
        };
        Self {
            id,
            head,
            responses: Vec::new(),
            by_id: HashMap::new(),
            dirty: BTreeSet::new(),
            held: HeldSnapshots::default(),
            parts_bytes: 0,
        }
    }

    /// Takes one event.
    pub fn handle_event(&mut self, event: &Event<'_>, arrival: &Arrival<'_>, settings: &Settings) -> Handled {
        let has_room = self.has_room(0, settings.limits.session_bytes);
        let head = &mut self.head;
        head.last_event_at = head.last_event_at.max(arrival.now);
        head.last_offset = arrival.offset;
        if let Some(seq) = event.seq {
            if head.last_seq.is_some_and(|last| seq <= last) {
                head.tallies.duplicates += 1;
                return Handled::Duplicate;
            }
            head.tallies.gaps += u64::from(head.last_seq.is_some_and(|last| seq.checked_sub(1) != Some(last)));
            head.last_seq = Some(seq);
        }
        let limits = &settings.limits;
        head.first_event = head.first_event.or(arrival.timestamp);
        head.last_event = arrival.timestamp.or(head.last_event);
        head.clock = head.clock.and(arrival.clock);
        let at = arrival.received_at_s;
        head.received = head.received.map(|(first, last)| (first.min(at), last.max(at)));
        head.tallies.late_events += u64::from(head.ended.is_some());
        let max_names = if has_room { limits.error_codes } else { 0 };
        head.truncated |= head.tallies.count(event, max_names, limits.text_bytes);
        head.label(&arrival.labels, event, limits.text_bytes);
        head.end(event, arrival.now, limits.text_bytes);
        if event.kind == Kind::AudioDelta {
            head.sample_rate_hz = event.sample_rate_hz.or(head.sample_rate_hz);
        }
        if event.kind == Kind::SpeechStarted {
            head.speech_onset = Some(at);
        }
        head.start.observe(event.kind, at);
        self.take_facts(event, at, settings);
        let start = &self.head.start;
        if start.chosen().is_none() {
            let full = start.held_cost() >= limits.held_facts || !self.has_room(0, limits.session_bytes);
            self.head.truncated |= full;
            if full || self.head.start.is_certain(&settings.stream_start_sources) {
                self.settle(limits);
            }
        }
        Handled::Accepted
    }

    /// When [`Self::handle_timeout`] has something to say next.
    #[must_use]
    pub fn next_deadline(&self, settings: &Settings) -> Timestamp {
        self.deadline(settings).0
    }

    /// Whether the session is over at `now`, and why.
    #[must_use]
    pub fn handle_timeout(&self, now: Timestamp, settings: &Settings) -> Option<EndReason> {
        let (deadline, reason) = self.deadline(settings);
        (now >= deadline).then_some(reason)
    }

    fn deadline(&self, settings: &Settings) -> (Timestamp, EndReason) {
        if let Some(end) = &self.head.ended {
            return (end.at + settings.grace, end.reason);
        }
        let idle = self.head.last_event_at + settings.idle_timeout;
        let max = self.head.opened_at + settings.max_duration;
        if max < idle { (max, EndReason::MaxDuration) } else { (idle, EndReason::IdleTimeout) }
    }

    /// When the session ended: at its own end, else when the timeout that ended it ran out, else `now`.
    #[must_use]
    pub fn ended_at(&self, reason: EndReason, now: Timestamp, settings: &Settings) -> Timestamp {
        match reason {
            EndReason::Closed | EndReason::Expired => self.head.ended.as_ref().map_or(now, |end| end.at),
            EndReason::IdleTimeout | EndReason::MaxDuration => self.next_deadline(settings),
            EndReason::EndOfInput | EndReason::Evicted => now,
        }
    }

    /// The reason of a session that ends because its capture does: its own, where it has one.
    #[must_use]
    pub fn end_of_input(&self) -> EndReason {
        self.head.ended.as_ref().map_or(EndReason::EndOfInput, |end| end.reason)
    }

    /// The reason of a session that makes room for others: its own, where it has one; else it is cut off.
    pub fn evict(&mut self) -> EndReason {
        self.head.truncated |= self.head.ended.is_none();
        self.head.ended.as_ref().map_or(EndReason::Evicted, |end| end.reason)
    }

    /// Settles what still waits, before the bundle is made.
    pub fn finish(&mut self, settings: &Settings) {
        self.settle(&settings.limits);
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Everything but the responses.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The responses that have an index, by index.
    #[must_use]
    pub fn known_responses(&self) -> Vec<&ResponseFacts> {
        let mut known: Vec<_> = self.responses.iter().filter(|response| response.request_index.is_some()).collect();
        known.sort_by_key(|response| response.request_index);
        known
    }

    /// The stream start, once settled.
    #[must_use]
    pub fn start(&self) -> Option<Chosen> {
        self.head.start.chosen()
    }

    fn take_facts(&mut self, event: &Event<'_>, at: f64, settings: &Settings) {
        // An empty id shadows the response's own and is never known, so it has no facts.
        let Some(id) = event.response_id.filter(|id| !id.is_empty()) else { return };
        let bytes = match event.kind {
            Kind::AudioDelta => event.audio_payload().and_then(decoded_len).unwrap_or(0),
            _ => 0,
        };
        let mut facts =
            windowed_facts(event, self.head.duration_of_bytes_ms(bytes), settings, &mut self.head.truncated);
        if facts.has_metrics() && !self.has_room(facts.heap_bytes(), settings.limits.session_bytes) {
            (facts.stages, facts.request) = (Vec::new(), None);
            self.head.truncated = true;
        }
        let is_new_fact = match event.kind {
            Kind::ResponseDone => true,
            // Without any other fact it is no reason to know a response.
            Kind::ResponseCancel => !facts.is_empty() || self.by_id.contains_key(&*id.decode()),
            _ => !facts.is_empty(),
        };
        if !is_new_fact {
            return;
        }
        let Some(index) = self.response(id, settings) else { return };
        let response = &mut self.responses[index as usize];
        match event.kind {
            Kind::ResponseCreated if response.request_index.is_none() => {
                response.request_index = Some(self.head.known);
                self.head.known += 1;
            }
            Kind::ResponseDone => {
                let status = FinalStatus::of(event.status.map(Text::decode).as_deref());
                response.end(at, status, self.head.speech_onset);
            }
            Kind::ResponseCancel => drop(response.cancel.get_or_insert(at)),
            Kind::AudioDelta => response.bytes += bytes,
            // Its facts are in the window or nowhere.
            _ => {}
        }
        self.dirty.insert(index);
        if facts.is_empty() {
            return;
        }
        let held = HeldFacts { at, ordinal: self.head.tallies.events, response: index, facts };
        match self.head.start.chosen() {
            Some(start) => self.apply(start, held, &settings.limits),
            None => {
                self.parts_bytes += held.facts.heap_bytes();
                self.head.start.hold(held);
            }
        }
    }

    fn settle(&mut self, limits: &Limits) {
        let held = self.head.start.settle();
        let Some(start) = self.head.start.chosen() else { return };
        for facts in held {
            self.parts_bytes -= facts.facts.heap_bytes();
            self.apply(start, facts, limits);
        }
    }

    fn apply(&mut self, start: Chosen, held: HeldFacts, limits: &Limits) {
        let HeldFacts { at, ordinal, response, facts } = held;
        if at >= start.at {
            self.dirty.insert(response);
            let response = &mut self.responses[response as usize];
            let grows = facts.has_metrics();
            self.parts_bytes -= if grows { response.heap_bytes() } else { 0 };
            self.head.truncated |= response.apply(Moment { at, ordinal }, facts, limits);
            self.parts_bytes += if grows { response.heap_bytes() } else { 0 };
        }
    }

    /// The index of a response, which is made when it is new; `None` where a limit keeps it out.
    fn response(&mut self, id: Text<'_>, settings: &Settings) -> Option<u32> {
        let id = id.decode();
        if let Some(index) = self.by_id.get(&*id) {
            return Some(*index);
        }
        let limits = &settings.limits;
        let response = (self.responses.len() < limits.responses && id.len() <= limits.text_bytes)
            .then(|| ResponseFacts::new(ResponseId::from(&*id)))
            .filter(|response| self.has_room(ANOTHER_RESPONSE_BYTES + response.heap_bytes(), limits.session_bytes));
        let Some(response) = response else {
            self.head.truncated = true;
            return None;
        };
        let index = self.head.responses;
        let id = response.id.clone();
        self.parts_bytes += response.heap_bytes();
        self.responses.push(response);
        self.by_id.insert(id, index);
        self.head.responses += 1;
        Some(index)
    }
}

impl Head {
    /// Whether receive times can be compared.
    #[must_use]
    pub fn has_one_clock(&self) -> bool {
        self.clock != ReceiveClock::Mixed
    }

    /// First to last event by receive time; `None` where that can't be told.
    #[must_use]
    pub fn duration_ms(&self) -> Option<f64> {
        self.received.filter(|_| self.has_one_clock()).map(|(first, last)| r3((last - first) * 1000.0))
    }

    /// The duration of audio by its bytes: 16-bit samples, one channel, at the session's last sample rate.
    #[must_use]
    pub fn duration_of_bytes_ms(&self, bytes: u64) -> f64 {
        let rate = self.sample_rate_hz.unwrap_or(DEFAULT_SAMPLE_RATE_HZ);
        bytes as f64 * 1000.0 / (rate * 2.0)
    }

    fn label(&mut self, labels: &Labels<'_>, event: &Event<'_>, text_bytes: usize) {
        let mut set = |place: &mut Option<String>, value: Option<&str>| {
            if let (None, Some(value)) = (&place, value) {
                let (value, was_cut) = cut(value, text_bytes);
                *place = Some(value.to_owned());
                self.truncated |= was_cut;
            }
        };
        set(&mut self.run_id, labels.run_id);
        set(&mut self.model, labels.model);
        set(&mut self.split, labels.split);
        set(&mut self.sample_id, labels.sample_id);
        if event.kind == Kind::SessionCreated {
            set(&mut self.created_model, event.model.map(Text::decode).as_deref());
        }
    }

    fn end(&mut self, event: &Event<'_>, now: Timestamp, text_bytes: usize) {
        let reason = match event.kind {
            Kind::SessionClosed => EndReason::Closed,
            Kind::SessionExpired => EndReason::Expired,
            // `session.replaced`, `session.resync_required` and `error` end nothing.
            _ => return,
        };
        if self.ended.is_none() {
            let close_reason = event.reason.map(|reason| {
                let reason = reason.decode();
                let (reason, was_cut) = cut(&reason, text_bytes);
                self.truncated |= was_cut;
                reason.to_owned()
            });
            self.ended = Some(End { at: now, reason, close_reason });
        }
    }
}

fn windowed_facts(event: &Event<'_>, bytes_ms: f64, settings: &Settings, truncated: &mut bool) -> WindowedFacts {
    let limits = &settings.limits;
    let stage_limits =
        StageLimits { stages: limits.stages, interval_values: limits.interval_values, text_bytes: limits.text_bytes };
    let stages = event.stage_metrics.map(|json| StageMetrics::read(json, stage_limits)).unwrap_or_default();
    *truncated |= stages.truncated;
    let audio = match event.kind {
        Kind::AudioDelta => event.audio_payload(),
        _ => None,
    };
    WindowedFacts {
        created: event.kind == Kind::ResponseCreated,
        text: event.kind == Kind::TextDelta && event.has_text(),
        audio: audio.map(|payload| AudioFact {
            packet: !payload.is_empty(),
            row_duration_ms: event
                .audio_duration_ms
                .as_number_or_bool()
                .filter(|ms| ms.is_finite())
                .map(|ms| ms.max(0.0)),
            stream_duration_ms: event.audio_duration_ms.as_measure(),
            bytes_ms: Some(bytes_ms),
        }),
        stages: stages.stages,
        request: event.request_metrics.map(|json| RequestMetrics::read(json, limits.text_bytes)),
    }
}
