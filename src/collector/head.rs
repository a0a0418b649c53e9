//! Everything of a session but its responses: constant in size, and written whole by each commit.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::end::EndReason;
use super::received::{Moment, Received};
use super::session::{Arrival, Labels};
use super::stream_start::StreamStart;
use super::tallies::Tallies;
use crate::ids::Offset;
use crate::time::Timestamp;
use crate::wire::{Event, Kind, Text, cut};

/// The sample rate until an audio event tells another.
pub(super) const DEFAULT_SAMPLE_RATE_HZ: f64 = 24000.0;

/// Everything of a session but its responses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Head {
    pub opened_at: Timestamp,
    pub last_event_at: Timestamp,
    pub ended: Option<Box<End>>,
    pub first_offset: Offset,
    pub last_offset: Offset,
    pub first_event: Option<Timestamp>,
    pub last_event: Option<Timestamp>,
    pub received: Received,
    pub run_id: Option<Box<str>>,
    pub model: Option<Box<str>>,
    /// From `session.created`; a header's rules.
    pub created_model: Option<Box<str>>,
    pub(super) sample: Option<Box<Sample>>,
    /// The session's own `session.created`.
    pub created: Option<Created>,
    pub last_seq: Option<Seq>,
    /// In Hz, the last one seen.
    pub sample_rate_hz: f64,
    /// The last `input_audio_buffer.speech_started`.
    pub speech_onset: Option<Moment>,
    pub start: StreamStart,
    /// How many facts wait, so that a restore can tell whether one is missing.
    pub waiting: u32,
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
    pub close_reason: Option<Box<str>>,
}

/// Which sample of a benchmark a session is of. Few sessions are of any.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sample {
    pub split: Option<Box<str>>,
    pub id: Option<Box<str>>,
}

/// A `server_event_seq`, in bytes: a number of this length would have to stand at every sixteenth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "i128", into = "i128")]
pub struct Seq([u8; 16]);

impl From<i128> for Seq {
    fn from(seq: i128) -> Self {
        Self(seq.to_ne_bytes())
    }
}

impl From<Seq> for i128 {
    fn from(Seq(bytes): Seq) -> Self {
        Self::from_ne_bytes(bytes)
    }
}

/// A session's own `session.created`: the hash of its `event_id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Created(NonZeroU64);

impl Created {
    /// One whose `event_id` is empty or missing.
    pub(super) const WITHOUT_ID: Self = Self(NonZeroU64::MIN);

    fn of(event: &Event<'_>) -> Self {
        // FNV-1a, for it has to be the same in every release: it is in snapshots.
        let hash = |id: Text<'_>| {
            let bytes = id.decode().into_owned().into_bytes();
            bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
        };
        let hash = event.event_id.and_then(|id| NonZeroU64::new(hash(id)));
        hash.map_or(Self::WITHOUT_ID, Self)
    }

    /// Whether the event is the same one again.
    pub(super) fn is(self, event: &Event<'_>) -> bool {
        self != Self::WITHOUT_ID && self == Self::of(event)
    }
}

impl Head {
    /// The head of a session that opens with this arrival.
    pub(super) fn of(arrival: &Arrival<'_>) -> Self {
        Self {
            opened_at: arrival.now,
            last_event_at: arrival.now,
            ended: None,
            first_offset: arrival.offset,
            last_offset: arrival.offset,
            first_event: arrival.timestamp,
            last_event: arrival.timestamp,
            received: Received::first(arrival.received_at_s),
            run_id: None,
            model: None,
            created_model: None,
            sample: None,
            created: None,
            last_seq: None,
            sample_rate_hz: DEFAULT_SAMPLE_RATE_HZ,
            speech_onset: None,
            start: StreamStart::default(),
            waiting: 0,
            tallies: Tallies::default(),
            known: 0,
            responses: 0,
            truncated: false,
        }
    }

    /// The benchmark's split that the session is of.
    #[must_use]
    pub fn split(&self) -> Option<&str> {
        self.sample.as_ref()?.split.as_deref()
    }

    /// The benchmark's sample that the session is of.
    #[must_use]
    pub fn sample_id(&self) -> Option<&str> {
        self.sample.as_ref()?.id.as_deref()
    }

    /// The duration of audio by its bytes in milliseconds: 16-bit samples, one channel, at the session's last sample rate.
    #[must_use]
    pub fn duration_of_bytes_ms(&self, bytes: u64) -> f64 {
        bytes as f64 * 1000.0 / (self.sample_rate_hz * 2.0)
    }

    /// Whether the event came before: its number did, or it is the session's own `session.created` again. Another
    /// conversation's never comes here: it ends this session.
    pub(super) fn is_duplicate(&self, event: &Event<'_>) -> bool {
        let is_passed = event.seq.zip(self.last_seq).is_some_and(|(seq, last)| seq <= last.into());
        is_passed || (event.kind == Kind::SessionCreated && self.created.is_some())
    }

    /// Takes note of the event's number. The numbers after a `session.resync_required` begin anew.
    pub(super) fn number(&mut self, event: &Event<'_>) {
        if let Some(seq) = event.seq {
            let is_gap = self.last_seq.is_some_and(|last| seq.checked_sub(1) != Some(last.into()));
            self.tallies.gaps = self.tallies.gaps.saturating_add(is_gap.into());
            self.last_seq = Some(seq.into());
        }
        if event.kind == Kind::SessionResyncRequired {
            self.last_seq = None;
        }
    }

    pub(super) fn label(&mut self, labels: &Labels<'_>, event: &Event<'_>, text_bytes: usize) {
        let mut set = |place: &mut Option<Box<str>>, value: Option<&str>| {
            if let (None, Some(value)) = (&place, value) {
                let (value, was_cut) = cut(value, text_bytes);
                *place = Some(value.into());
                self.truncated |= was_cut;
            }
        };
        set(&mut self.run_id, labels.run_id);
        set(&mut self.model, labels.model);
        if labels.split.is_some() || labels.sample_id.is_some() {
            let sample = self.sample.get_or_insert_default();
            set(&mut sample.split, labels.split);
            set(&mut sample.id, labels.sample_id);
        }
        if event.kind == Kind::SessionCreated {
            set(&mut self.created_model, event.model.map(Text::decode).as_deref());
            self.created = Some(Created::of(event));
        }
    }

    pub(super) fn end(&mut self, event: &Event<'_>, now: Timestamp, text_bytes: usize) {
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
                reason.into()
            });
            self.ended = Some(Box::new(End { at: now, reason, close_reason }));
        }
    }
}
