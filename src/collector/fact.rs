//! The facts of one event that count only in the stream's window (contract.md sections 2 and 3).

use serde::{Deserialize, Serialize};

use super::received::Moment;
use crate::wire::{Event, Kind, RequestMetrics, StageLimits, StageMetrics, StageSnapshot};

/// What one event says of its response. It may have to wait until the window is known, so it is small and holds no payload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fact {
    pub moment: Moment,
    /// Index of the response in its session.
    pub response: u32,
    pub created: bool,
    pub text: bool,
    pub audio: Option<Audio>,
    /// How long its audio lasts in milliseconds, as `audio` says.
    pub audio_ms: f64,
    pub metrics: Option<Box<Reported>>,
}

/// An audio delta whose payload was a string, and what tells how long its audio lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Audio {
    /// The payload was empty.
    Empty,
    /// A packet, whose `metadata.audio_duration_ms` is the duration of the response so far.
    SoFar,
    /// The same, as the row reads it: the stream reads neither booleans nor what is below 0.
    SoFarOfRow,
    /// A packet that says nothing of it: its own bytes, at the sample rate known when it came.
    OfBytes,
    /// A packet that an earlier release held.
    Unknown,
}

/// The server's own metrics of a response, as one event carries them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reported {
    pub stages: Vec<(String, StageSnapshot)>,
    pub request: Option<RequestMetrics>,
}

impl Fact {
    /// The facts of an event whose audio lasts `bytes_ms` by its bytes, and whether a limit cut off any.
    #[must_use]
    pub fn of(event: &Event<'_>, moment: Moment, bytes_ms: f64, limits: StageLimits) -> (Self, bool) {
        let so_far = event.audio_duration_ms.as_number_or_bool().filter(|ms| ms.is_finite());
        let packet = match so_far {
            Some(_) if event.audio_duration_ms.as_measure().is_some() => Audio::SoFar,
            Some(_) => Audio::SoFarOfRow,
            None => Audio::OfBytes,
        };
        let payload = if event.kind == Kind::AudioDelta { event.audio_payload() } else { None };
        let stages = event.stage_metrics.map(|json| StageMetrics::read(json, limits)).unwrap_or_default();
        let request = event.request_metrics.map(|json| RequestMetrics::read(json, limits.text_bytes));
        let reported = Reported { stages: stages.stages, request };
        let fact = Self {
            moment,
            response: 0,
            created: event.kind == Kind::ResponseCreated,
            text: event.kind == Kind::TextDelta && event.has_text(),
            audio: payload.map(|payload| if payload.is_empty() { Audio::Empty } else { packet }),
            audio_ms: so_far.map_or(bytes_ms, |ms| ms.max(0.0)),
            metrics: (!reported.is_empty()).then(|| Box::new(reported)),
        };
        (fact, stages.truncated)
    }

    /// Whether the event carried none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.created && !self.text && self.audio.is_none() && self.metrics.is_none()
    }

    /// Its place in the order of receive times; of equal ones the one that came first.
    pub(super) fn place(&self) -> (f64, u32) {
        (self.moment.at, self.moment.ordinal)
    }
}

impl Reported {
    pub(super) fn is_empty(&self) -> bool {
        self.stages.is_empty() && self.request.is_none()
    }
}
