//! Why a record is a dead letter, and the classes events are counted by: closed sets.

use serde::Serialize;

use super::unsupported::Unsupported;

/// Why a record could not be read (contract.md sections 1 and 1.1). A closed set: it is a metric label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterReason {
    /// No JSON value, trailing text, a leading BOM.
    InvalidJson,
    /// Bytes that are no UTF-8, in the key or the value.
    InvalidUtf8,
    /// A JSON value that is not an object.
    NotAnObject,
    /// Nesting over 128.
    TooDeep,
    /// A value over `limits.record_bytes`.
    TooLarge,
    /// Neither a key nor a `session_id` nor `session.id`.
    MissingSessionId,
    /// A session id over 256 bytes.
    SessionIdTooLong,
    /// A receive time that is not finite, or none at all.
    BadReceiveTime,
}

impl DeadLetterReason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::InvalidJson,
        Self::InvalidUtf8,
        Self::NotAnObject,
        Self::TooDeep,
        Self::TooLarge,
        Self::MissingSessionId,
        Self::SessionIdTooLong,
        Self::BadReceiveTime,
    ];

    /// The reason as it stands in headers, files and labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::NotAnObject => "not_an_object",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::MissingSessionId => "missing_session_id",
            Self::SessionIdTooLong => "session_id_too_long",
            Self::BadReceiveTime => "bad_receive_time",
        }
    }
}

/// The classes events are counted by. A closed set: it is a metric label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventClass {
    /// `session.*`
    Session,
    /// `response.created`, `response.done` and the other `response.*` without output.
    Response,
    /// `response.output_audio.delta`
    Audio,
    /// The three text deltas.
    Text,
    /// `input_audio_buffer.*`, `conversation.*`
    Input,
    /// `output_audio_buffer.*`, `playback.*`
    Playback,
    /// `overlap.decision`
    Overlap,
    /// `error`
    Error,
    /// `collector.stream_start`
    StreamStart,
    /// A shape of voice events that is known and not read.
    Unsupported(Unsupported),
    /// Every other type, a missing one included.
    Other,
}

impl EventClass {
    /// The value of the `class` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Response => "response",
            Self::Audio => "audio",
            Self::Text => "text",
            Self::Input => "input",
            Self::Playback => "playback",
            Self::Overlap => "overlap",
            Self::Error => "error",
            Self::StreamStart => "stream_start",
            Self::Unsupported(_) => "unsupported",
            Self::Other => "other",
        }
    }
}
