//! What a session's life is measured by: `[session]` and `[limits]` of the configuration.

use std::time::Duration;

/// How sessions end and how much of them is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// After an end, how long stragglers of other producers are admitted.
    pub grace: Duration,
    /// A session without an event for this long has ended.
    pub idle_timeout: Duration,
    /// A session open for this long has ended.
    pub max_duration: Duration,
    /// How long the marker of a finished session keeps its late events from opening it anew.
    pub closed_retention: Duration,
    /// How far a record's timestamp may be past the wall clock; one further ahead says nothing of the time.
    pub clock_tolerance: Duration,
    pub limits: Limits,
}

/// Bounds. What one cuts off is marked `truncated` in its bundle, but for the first, which makes a dead letter; none ends the
/// process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one record's value; a larger one is a dead letter.
    pub record_bytes: usize,
    /// Sessions open at once in a partition; past it one of them is evicted.
    pub sessions: usize,
    /// Bytes of a partition's state. A fourth of them is for the markers of finished sessions, of which the oldest are
    /// forgotten past it; past the rest open sessions are evicted.
    pub state_bytes: usize,
    /// Bytes of one session's state; past it new responses, new names and later metrics of
    /// stages and requests are left out.
    pub session_bytes: usize,
    /// Responses of one session.
    pub responses: usize,
    /// Distinct error codes of one session, and distinct overlap actions; further ones count as `other`.
    pub error_codes: usize,
    /// Stages of one response.
    pub stages: usize,
    /// Values of all interval lists of one response.
    pub interval_values: usize,
    /// Bytes of a text that is kept: models, labels, codes, reasons. A longer one is cut; a response whose id is longer is
    /// left out.
    pub text_bytes: usize,
}

impl Limits {
    /// The share of `state_bytes` that markers of finished sessions may take.
    #[must_use]
    pub fn marker_bytes(&self) -> usize {
        self.state_bytes / 4
    }

    /// The share of `state_bytes` that is for open sessions.
    #[must_use]
    pub fn open_session_bytes(&self) -> usize {
        self.state_bytes - self.marker_bytes()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(360),
            max_duration: Duration::from_secs(6 * 3600),
            closed_retention: Duration::from_secs(600),
            clock_tolerance: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes: 16 << 20,
            sessions: 1_000_000,
            state_bytes: 256 << 20,
            session_bytes: 64 << 20,
            responses: 10_000,
            error_codes: 32,
            stages: 64,
            interval_values: 65_536,
            text_bytes: 1024,
        }
    }
}
