//! What can happen in a session: one step, one event on the wire.

/// One event to come. Carries what the script decided; everything else is known when it is rendered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Created,
    Updated,
    /// Input media is about to be pushed: the microphone is on from here.
    StreamStart,
    SpeechStarted,
    SpeechStopped,
    UserItemAdded,
    Committed,
    Listen,
    ResponseCreated,
    OutputItemAdded,
    Speak,
    Text,
    Audio {
        audio_ms: u32,
    },
    AudioDone,
    TranscriptDone,
    Done(Status),
    PlaybackAck {
        played_ms: u32,
    },
    PlaybackAcknowledged {
        played_ms: u32,
    },
    Overlap,
    Cancel,
    Cleared,
    Error(Fault),
    Resume,
    Resumed,
    /// The oldest event kept for a replay, as it was, at a new receive time.
    Replay,
    Close,
    Closed,
    Expired,
}

impl Step {
    /// Whether the client sends it; a producer that taps the server only never sees it.
    pub(super) fn is_client(self) -> bool {
        matches!(self, Self::StreamStart | Self::PlaybackAck { .. } | Self::Cancel | Self::Resume | Self::Close)
    }
}

/// Final status of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Completed,
    Cancelled,
    Failed,
    Incomplete,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Completed => "stop",
            Self::Cancelled => "turn_detected",
            Self::Failed => "server_error",
            Self::Incomplete => "max_output_tokens",
        }
    }
}

/// What an `error` event tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    CommitEmpty,
    RateLimit,
    Server,
}

impl Fault {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::CommitEmpty => "input_audio_buffer_commit_empty",
            Self::RateLimit => "rate_limit_exceeded",
            Self::Server => "server_error",
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::CommitEmpty | Self::RateLimit => "invalid_request_error",
            Self::Server => "server_error",
        }
    }
}
