//! An event as the collector wants it: its kind, and the fields that carry a fact.

use std::borrow::Cow;

use super::json::Raw;
use super::reason::EventClass;
use super::scalar::Scalar;
use super::text::unescape;
use super::unsupported::Unsupported;

/// One duplex event, borrowed from the record (contract.md section 1.2).
#[derive(Clone, Debug)]
pub struct Event<'a> {
    pub kind: Kind,
    /// Top-level `session_id`, else `session.id`; never empty, as no id, name or label below but `response_id` is.
    pub session_id: Option<Text<'a>>,
    /// `session.model`
    pub model: Option<Text<'a>>,
    /// Top-level `response_id` if a string, else `response.id` if a string; an empty one shadows too.
    pub response_id: Option<Text<'a>>,
    pub event_id: Option<Text<'a>>,
    /// `server_event_seq`, integers only; past 128 bits the nearest that fits.
    pub seq: Option<i128>,
    /// `_client_received_at_s`, numbers only, finite or not.
    pub received_at_s: Option<f64>,
    pub delta: Payload<'a>,
    pub audio: Payload<'a>,
    /// `sample_rate_hz`, positive integers only.
    pub sample_rate_hz: Option<f64>,
    /// `metadata.audio_duration_ms`
    pub audio_duration_ms: Scalar,
    /// `stage_metrics`, the first found, as it stands in the record.
    pub stage_metrics: Option<&'a [u8]>,
    /// `response_request_metrics`, the first found, as it stands in the record.
    pub request_metrics: Option<&'a [u8]>,
    /// `response.status`
    pub status: Option<Text<'a>>,
    /// Top-level `reason`
    pub reason: Option<Text<'a>>,
    /// Top-level `action`
    pub action: Option<Text<'a>>,
    /// `error.code`, else `error.type`, else top-level `code`
    pub error_code: Option<Text<'a>>,
}

/// A string of the wire, decoded when somebody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<'a>(pub(super) &'a [u8]);

impl<'a> Text<'a> {
    /// The decoded text.
    #[must_use]
    pub fn decode(self) -> Cow<'a, str> {
        unescape(self.0)
    }

    /// Whether it is the empty string.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// A field that may hold a payload: text of a delta, or base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Payload<'a> {
    /// Absent, or false to Python and no string.
    #[default]
    Falsy,
    /// True to Python and no string.
    Other,
    /// A string as it stands between its quotes; empty too.
    String(&'a [u8]),
}

impl<'a> Payload<'a> {
    pub(super) fn of(raw: Raw<'a>) -> Self {
        match raw {
            Raw::String(text) => Self::String(text),
            other if other.is_truthy() => Self::Other,
            _ => Self::Falsy,
        }
    }

    fn is_truthy(self) -> bool {
        match self {
            Self::Falsy => false,
            Self::Other => true,
            Self::String(text) => !text.is_empty(),
        }
    }
}

impl<'a> Event<'a> {
    /// The audio payload's base64 as it stands in the record: `delta`, or `audio` where `delta` is absent or falsy;
    /// `None` where that is no string. An empty one is a payload but no packet (contract.md section 3).
    #[must_use]
    pub fn audio_payload(&self) -> Option<&'a [u8]> {
        let chosen = if self.delta.is_truthy() { self.delta } else { self.audio };
        match chosen {
            Payload::String(text) => Some(text),
            Payload::Falsy | Payload::Other => None,
        }
    }

    /// Whether a text delta carries text.
    #[must_use]
    pub fn has_text(&self) -> bool {
        matches!(self.delta, Payload::String(text) if !text.is_empty())
    }
}

/// The event types that move a session; every other is counted by its class only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    SessionCreated,
    SessionResumed,
    SessionResyncRequired,
    SessionClosed,
    SessionExpired,
    ResponseCreated,
    AudioDelta,
    TextDelta,
    Speak,
    Listen,
    ResponseDone,
    ResponseCancel,
    InputAudioAppend,
    SpeechStarted,
    OverlapDecision,
    Error,
    StreamStart,
    /// Known or not, without an effect of its own.
    Other(EventClass),
}

impl Kind {
    /// The kind of an event of this `type`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "session.created" => Self::SessionCreated,
            "session.resumed" => Self::SessionResumed,
            "session.resync_required" => Self::SessionResyncRequired,
            "session.closed" => Self::SessionClosed,
            "session.expired" => Self::SessionExpired,
            "response.created" => Self::ResponseCreated,
            "response.output_audio.delta" => Self::AudioDelta,
            "response.output_audio_transcript.delta" | "response.output_text.delta" | "response.text.delta" => {
                Self::TextDelta
            }
            "response.speak" => Self::Speak,
            "response.listen" => Self::Listen,
            "response.done" => Self::ResponseDone,
            "response.cancel" => Self::ResponseCancel,
            "input_audio_buffer.append" => Self::InputAudioAppend,
            "input_audio_buffer.speech_started" => Self::SpeechStarted,
            "overlap.decision" => Self::OverlapDecision,
            "error" => Self::Error,
            "collector.stream_start" => Self::StreamStart,
            other => {
                Self::Other(Unsupported::of_type(other).map_or_else(|| class_of_family(other), EventClass::Unsupported))
            }
        }
    }

    /// The class it is counted by.
    #[must_use]
    pub fn class(self) -> EventClass {
        match self {
            Self::SessionCreated
            | Self::SessionResumed
            | Self::SessionResyncRequired
            | Self::SessionClosed
            | Self::SessionExpired => EventClass::Session,
            Self::ResponseCreated | Self::Speak | Self::Listen | Self::ResponseDone | Self::ResponseCancel => {
                EventClass::Response
            }
            Self::AudioDelta => EventClass::Audio,
            Self::TextDelta => EventClass::Text,
            Self::InputAudioAppend | Self::SpeechStarted => EventClass::Input,
            Self::OverlapDecision => EventClass::Overlap,
            Self::Error => EventClass::Error,
            Self::StreamStart => EventClass::StreamStart,
            Self::Other(class) => class,
        }
    }
}

/// The class of a type by what stands before its first dot.
fn class_of_family(name: &str) -> EventClass {
    match name.split_once('.').map_or("", |(family, _)| family) {
        "session" => EventClass::Session,
        "response" => EventClass::Response,
        "input_audio_buffer" | "conversation" => EventClass::Input,
        "output_audio_buffer" | "playback" => EventClass::Playback,
        _ => EventClass::Other,
    }
}
