//! Where a session's stream start and its receive times come from (contract.md sections 1, 1.4 and 2).

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

/// The clock that a receive time was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReceiveClock {
    ClientMonotonic,
    KafkaTimestamp,
}

/// What a bundle says of the clocks of its session's receive times.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionClock {
    ClientMonotonic,
    KafkaTimestamp,
    /// Some times are of the one clock, some of the other.
    Mixed,
    /// A clock went back, or ahead by more than a session can be silent.
    Unsteady,
}

impl SessionClock {
    /// The clock as it stands in labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientMonotonic => "client_monotonic",
            Self::KafkaTimestamp => "kafka_timestamp",
            Self::Mixed => "mixed",
            Self::Unsteady => "unsteady",
        }
    }
}

/// A set of clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Clocks(u8);

impl From<ReceiveClock> for Clocks {
    fn from(clock: ReceiveClock) -> Self {
        Self(1 << clock as u8)
    }
}

impl Clocks {
    /// Both sets together.
    #[must_use]
    pub fn and(self, other: impl Into<Self>) -> Self {
        Self(self.0 | other.into().0)
    }

    /// What a bundle says of them where they are steady; `None` where there is no clock.
    #[must_use]
    pub fn name(self) -> Option<SessionClock> {
        const CLIENT: u8 = 1 << ReceiveClock::ClientMonotonic as u8;
        const KAFKA: u8 = 1 << ReceiveClock::KafkaTimestamp as u8;
        match self.0 {
            0 => None,
            CLIENT => Some(SessionClock::ClientMonotonic),
            KAFKA => Some(SessionClock::KafkaTimestamp),
            _ => Some(SessionClock::Mixed),
        }
    }
}
