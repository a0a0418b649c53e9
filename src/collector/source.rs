//! Where a session's stream start and its receive times come from (contract.md sections 1 and 2).

use serde::{Deserialize, Serialize};

/// The sources of the stream start, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum StreamStartSource {
    /// The producer's own mark.
    #[serde(rename = "collector.stream_start")]
    Marker,
    #[serde(rename = "input_audio_buffer.append")]
    InputAudioAppend,
    #[serde(rename = "session.created")]
    SessionCreated,
    /// None of them was seen.
    #[serde(rename = "first_event")]
    FirstEvent,
}

impl StreamStartSource {
    /// The sources a configuration can name.
    pub const CONFIGURABLE: [Self; 3] = [Self::Marker, Self::InputAudioAppend, Self::SessionCreated];

    /// The source as it stands in the bundle and the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Marker => "collector.stream_start",
            Self::InputAudioAppend => "input_audio_buffer.append",
            Self::SessionCreated => "session.created",
            Self::FirstEvent => "first_event",
        }
    }
}

/// The clock a session's receive times were read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveClock {
    ClientMonotonic,
    KafkaTimestamp,
    Mixed,
}

impl ReceiveClock {
    /// The clock of a session that has used both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }
}
