//! One response's facts (contract.md section 3).

use serde::{Deserialize, Serialize};

use super::fact::Fact;
use super::received::Moment;
use super::settings::Limits;
use super::source::{Clocks, ReceiveClock};
use super::windowed::Windowed;
use crate::ids::ResponseId;

/// What is known of a response so far.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResponseFacts {
    pub id: ResponseId,
    /// Position among the session's `response.created` ids; `None` until its own comes.
    pub request_index: Option<u32>,
    pub status: Option<FinalStatus>,
    /// Decoded bytes of every audio packet, in the window or not.
    pub bytes: u64,
    /// When its first `response.done` came, else the client's first `response.cancel`; in the window or not, as is the next.
    pub ended: Option<Moment>,
    /// The last onset of user speech before it ended; looked for where it was cancelled.
    pub speech_onset: Option<Box<Moment>>,
    pub in_window: Windowed,
    /// Facts that are before the best stream start so far. They count after all where a better one turns out to be earlier.
    pub(super) before_window: Option<Box<Windowed>>,
    /// It changed since its last snapshot.
    #[serde(skip)]
    pub(super) is_dirty: bool,
}

/// The final status of a response (contract.md section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalStatus {
    Completed,
    Cancelled,
    Failed,
    Incomplete,
    /// No `response.done` came before the session ended.
    Unfinished,
}

impl FinalStatus {
    /// The status in a `response.done`; one that is missing or not known counts as incomplete.
    #[must_use]
    pub fn of(status: Option<&str>) -> Self {
        match status {
            Some("completed") => Self::Completed,
            Some("cancelled") => Self::Cancelled,
            Some("failed") => Self::Failed,
            _ => Self::Incomplete,
        }
    }

    /// The status as it stands in the bundle and in labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Unfinished => "unfinished",
        }
    }
}

impl ResponseFacts {
    /// A response of which nothing but its id is known.
    #[must_use]
    pub fn new(id: ResponseId) -> Self {
        Self {
            id,
            request_index: None,
            status: None,
            bytes: 0,
            ended: None,
            speech_onset: None,
            in_window: Windowed::default(),
            before_window: None,
            is_dirty: false,
        }
    }

    /// Takes note of a `response.done`; the first one's time counts. `speech_onset` is the session's last.
    pub fn end(&mut self, at: Moment, status: FinalStatus, speech_onset: Option<Moment>) {
        if self.status.is_none() {
            self.ended = Some(at);
            self.speech_onset = speech_onset.filter(|_| status == FinalStatus::Cancelled).map(Box::new);
        }
        self.status = Some(status);
    }

    /// Takes one event's facts, in the window or before it; returns whether a limit kept a stage out.
    #[must_use]
    pub(super) fn apply(&mut self, fact: Fact, is_in_window: bool, limits: &Limits) -> bool {
        let Self { in_window, before_window, .. } = self;
        let (side, other) = match before_window {
            None if is_in_window => return in_window.apply(fact, limits),
            Some(before) if is_in_window => (in_window, &**before),
            before => (before.get_or_insert_default().as_mut(), &*in_window),
        };
        // Both are one record of the changelog.
        if fact.metrics.is_some() { side.apply(fact, &other.leaves(limits)) } else { side.apply(fact, limits) }
    }

    /// What was before the window is in it after all.
    #[must_use]
    pub(super) fn take_in(&mut self, limits: &Limits) -> bool {
        self.before_window.take().is_some_and(|before| self.in_window.merge(*before, limits))
    }

    /// What was in the window is before it after all, unless its times are of another clock than the window's.
    #[must_use]
    pub(super) fn put_out(&mut self, clock: ReceiveClock, limits: &Limits) -> bool {
        if self.in_window.clocks().and(clock) != Clocks::from(clock) {
            return false;
        }
        let out = std::mem::take(&mut self.in_window);
        self.before_window.get_or_insert_default().merge(out, limits)
    }
}
