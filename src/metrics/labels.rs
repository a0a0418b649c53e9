//! The closed sets that label values come from.

use crate::bundle::LatencySource;
use crate::collector::{EndReason, FinalStatus, SessionClock};
use crate::task::Outcome;
use crate::wire::{EventClass, Unsupported};

pub(super) const EVENT_CLASSES: [EventClass; 11] = [
    EventClass::Session,
    EventClass::Response,
    EventClass::Audio,
    EventClass::Text,
    EventClass::Input,
    EventClass::Playback,
    EventClass::Overlap,
    EventClass::Error,
    EventClass::StreamStart,
    // Of whichever shape: they have one label.
    EventClass::Unsupported(Unsupported::Envelope),
    EventClass::Other,
];

pub(super) const OUTCOMES: [Outcome; 3] = [Outcome::Accepted, Outcome::Duplicate, Outcome::Late];

pub(super) const END_REASONS: [EndReason; 7] = [
    EndReason::Closed,
    EndReason::Expired,
    EndReason::IdleTimeout,
    EndReason::MaxDuration,
    EndReason::EndOfInput,
    EndReason::Evicted,
    EndReason::Restarted,
];

pub(super) const CLOCK_FAULTS: [SessionClock; 2] = [SessionClock::Mixed, SessionClock::Unsteady];

pub(super) const FINAL_STATUSES: [FinalStatus; 5] = [
    FinalStatus::Completed,
    FinalStatus::Cancelled,
    FinalStatus::Failed,
    FinalStatus::Incomplete,
    FinalStatus::Unfinished,
];

pub(super) const LATENCY_SOURCES: [LatencySource; 2] = [LatencySource::Server, LatencySource::Client];

/// Who measured the TTFT of a session's responses.
pub(super) const TTFT_SOURCES: [&str; 3] = ["server", "client", "mixed"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // A new variant stops these from compiling: it belongs into the lists above as well.
    fn class_index(class: EventClass) -> usize {
        match class {
            EventClass::Session => 0,
            EventClass::Response => 1,
            EventClass::Audio => 2,
            EventClass::Text => 3,
            EventClass::Input => 4,
            EventClass::Playback => 5,
            EventClass::Overlap => 6,
            EventClass::Error => 7,
            EventClass::StreamStart => 8,
            EventClass::Unsupported(_) => 9,
            EventClass::Other => 10,
        }
    }

    fn outcome_index(outcome: Outcome) -> usize {
        match outcome {
            Outcome::Accepted => 0,
            Outcome::Duplicate => 1,
            Outcome::Late => 2,
        }
    }

    fn end_index(reason: EndReason) -> usize {
        match reason {
            EndReason::Closed => 0,
            EndReason::Expired => 1,
            EndReason::IdleTimeout => 2,
            EndReason::MaxDuration => 3,
            EndReason::EndOfInput => 4,
            EndReason::Evicted => 5,
            EndReason::Restarted => 6,
        }
    }

    fn status_index(status: FinalStatus) -> usize {
        match status {
            FinalStatus::Completed => 0,
            FinalStatus::Cancelled => 1,
            FinalStatus::Failed => 2,
            FinalStatus::Incomplete => 3,
            FinalStatus::Unfinished => 4,
        }
    }

    fn source_index(source: LatencySource) -> usize {
        match source {
            LatencySource::Server => 0,
            LatencySource::Client => 1,
        }
    }

    #[test]
    fn the_closed_sets_are_complete() {
        assert_eq!(EVENT_CLASSES.map(class_index), std::array::from_fn(|i| i));
        assert_eq!(OUTCOMES.map(outcome_index), std::array::from_fn(|i| i));
        assert_eq!(END_REASONS.map(end_index), std::array::from_fn(|i| i));
        assert_eq!(FINAL_STATUSES.map(status_index), std::array::from_fn(|i| i));
        assert_eq!(LATENCY_SOURCES.map(source_index), std::array::from_fn(|i| i));
    }

    #[test]
    fn no_two_pairs_of_class_and_outcome_fall_together_when_joined() {
        let joined: BTreeSet<String> = EVENT_CLASSES
            .iter()
            .flat_map(|class| OUTCOMES.iter().map(|outcome| format!("{}{}", class.as_str(), outcome.as_str())))
            .collect();
        assert_eq!(joined.len(), EVENT_CLASSES.len() * OUTCOMES.len());
    }
}
