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

use std::collections::HashMap;

use super::end::EndReason;
use super::head::Head;
use super::received::Moment;
use super::response::ResponseFacts;
use super::settings::Settings;
use super::source::{Clocks, ReceiveClock, SessionClock};
use super::stream_start::Chosen;
use super::waiting::Waiting;
use crate::ids::{Offset, ResponseId, SessionId};
use crate::time::Timestamp;
use crate::wire::{Event, Kind};

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
    /// Where there are more of them than are found by looking.
    #[expect(
        clippy::box_collection,
        reason = "most sessions have none, and a million of them feel the table's own fields"
    )]
    pub(super) by_id: Option<Box<HashMap<ResponseId, u32>>>,
    /// No response before this one changed since the last snapshot.
    pub(super) first_dirty: u32,
    pub(super) waiting: Waiting,
    /// What `responses` and the facts that wait take beside their places, in bytes.
    pub(super) parts_bytes: usize,
}

impl SessionCollector {
    /// Opens a session with its first event, which is then to be handled.
    #[must_use]
    pub fn open(id: SessionId, arrival: &Arrival<'_>) -> Self {
        Self {
            id,
            head: Head::of(arrival),
            responses: Vec::new(),
            by_id: None,
            first_dirty: u32::MAX,
            waiting: Waiting::default(),
            parts_bytes: 0,
        }
    }

    /// Takes one event.
    pub fn handle_event(&mut self, event: &Event<'_>, arrival: &Arrival<'_>, settings: &Settings) -> Handled {
        let has_room = self.has_room(0, settings.limits.session_bytes);
        let head = &mut self.head;
        head.last_event_at = head.last_event_at.max(arrival.now);
        head.last_offset = arrival.offset;
        if head.is_duplicate(event) {
            head.tallies.duplicates = head.tallies.duplicates.saturating_add(1);
            return Handled::Duplicate;
        }
        let limits = &settings.limits;
        head.number(event);
        head.first_event = head.first_event.or(arrival.timestamp);
        head.last_event = arrival.timestamp.or(head.last_event);
        head.received.take(arrival.received_at_s, arrival.clock, settings.idle_timeout);
        head.tallies.late_events = head.tallies.late_events.saturating_add(head.ended.is_some().into());
        let max_names = if has_room { limits.error_codes } else { 0 };
        head.truncated |= head.tallies.count(event, max_names, limits.text_bytes);
        head.label(&arrival.labels, event, limits.text_bytes);
        head.end(event, arrival.now, limits.text_bytes);
        let moment = Moment { at: arrival.received_at_s, ordinal: head.tallies.events, clock: arrival.clock };
        match event.kind {
            Kind::AudioDelta => head.sample_rate_hz = event.sample_rate_hz.unwrap_or(head.sample_rate_hz),
            Kind::SpeechStarted => head.speech_onset = Some(moment),
            // What was said before it is not known any more to be the last.
            Kind::SessionResyncRequired => head.speech_onset = None,
            _ => {}
        }
        let was_certain = head.start.is_certain();
        let change = head.start.observe(event.kind, moment.at, moment.clock);
        self.move_window(change, limits);
        self.take_facts(event, moment, settings);
        match (was_certain, self.head.start.is_certain()) {
            (_, false) => self.settle_surplus(limits),
            (false, true) => self.settle_for_good(limits),
            // Only what an earlier release let wait is left.
            (true, true) => self.settle_all(limits),
        }
        self.head.waiting = self.waiting.facts().len() as u32;
        Handled::Accepted
    }

    /// Why this session is over where the event is the `session.created` of a new conversation under its id; `None` where it
    /// is not (contract.md section 7).
    #[must_use]
    pub fn restarted_by(&self, event: &Event<'_>) -> Option<EndReason> {
        let own_end = self.head.ended.as_ref().map(|end| end.reason);
        match &self.head.created {
            _ if event.kind != Kind::SessionCreated => None,
            // Other events came before its own one.
            None => own_end,
            Some(created) if self.head.tallies.events == 1 || created.is(event) => None,
            Some(_) => Some(own_end.unwrap_or(EndReason::Restarted)),
        }
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
            EndReason::EndOfInput | EndReason::Evicted | EndReason::Restarted => now,
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
        self.settle_all(&settings.limits);
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

    /// The best source of the stream start so far; `None` before the first event.
    #[must_use]
    pub fn start(&self) -> Option<Chosen> {
        self.head.start.best()
    }

    /// What its receive times are, where they do not fit together: then none of their differences is a figure
    /// (contract.md section 1.4).
    #[must_use]
    pub fn clock_fault(&self) -> Option<SessionClock> {
        let times = self.responses.iter().filter(|response| response.request_index.is_some());
        let clocks = times.fold(Clocks::default(), |clocks, response| clocks.and(response.in_window.clocks()));
        let clocks = self.start().map_or(clocks, |start| clocks.and(start.clock));
        let is_mixed = clocks.name() == Some(SessionClock::Mixed);
        match self.head.received.clock() {
            SessionClock::Unsteady => Some(SessionClock::Unsteady),
            _ => is_mixed.then_some(SessionClock::Mixed),
        }
    }
}
