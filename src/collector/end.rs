//! How a session ends (contract.md section 7).

use serde::{Deserialize, Serialize};

/// Why a session's bundle was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// `session.closed`
    Closed,
    /// `session.expired`
    Expired,
    /// No event for `session.idle_timeout`.
    IdleTimeout,
    /// Open for `session.max_duration`.
    MaxDuration,
    /// The capture ended.
    EndOfInput,
    /// The session made room for others: `limits.sessions` or `limits.state_bytes` was reached.
    Evicted,
    /// A new conversation began under its id.
    Restarted,
}

impl EndReason {
    /// The reason as it stands in the bundle and in labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::IdleTimeout => "idle_timeout",
            Self::MaxDuration => "max_duration",
            Self::EndOfInput => "end_of_input",
            Self::Evicted => "evicted",
            Self::Restarted => "restarted",
        }
    }
}
