//! What must hold, by name.

use std::fmt;

/// A promise of the product, or of its changelog and offsets to each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Invariant {
    /// The records of a session are in one bundle at most: visible bundles of an id do not overlap.
    OneBundlePerSession,
    /// A visible bundle has the bytes that a run without faults gives it.
    BytesAsWithoutFaults,
    /// Bundles, state and dead letters of a partition are committed together with its offset, and that never goes back.
    OffsetsMoveWithOutput,
    /// The committed changelog is the state at the committed offset: no session is missing, behind, or there although
    /// its bundle is written.
    ChangelogAgreesWithOffsets,
    /// Nothing is committed by a producer whose `transactional.id` has another owner.
    FencedProducerWritesNothingVisible,
    /// Every malformed record is a visible dead letter, once, and no other record is.
    DeadLettersOnce,
    /// Every event is in a bundle, or came when its session's bundle was due: no record is lost.
    EveryRecordIsAccounted,
    /// An event after its session's end is dropped and opens nothing, as long as the marker stays.
    LateStaysLate,
    /// Sessions end when the contract says: neither early, be it by the clock of another one, nor for another reason.
    SessionsEndInTime,
    /// The run view shows the same whoever reads the bundles topic, in whatever order and from when on.
    RunFiguresAreOfTheTopic,
    /// Metrics count a batch after its commit, and once.
    CountedAfterCommit,
    /// A changelog that the product wrote can be restored.
    StateCanBeRestored,
    /// No worker ends because the broker does not answer, nor waits long once it does again.
    OutagesAreWaitedThrough,
    /// The ports are called as they promise to be used: above all, no empty transaction is committed.
    PortsAreUsedAsPromised,
    /// Once nothing goes wrong any more, all is read and committed, and every session has ended.
    LagZeroAtEnd,
    /// What was read and committed may be deleted: nobody takes it for records that were lost.
    NothingReadIsCalledLost,
    /// What was deleted unread is noticed.
    LossIsNoticed,
    /// Nothing of an events topic goes into the state of another.
    OneTopicOneState,
    /// No transaction is left open then.
    NoOpenTransactionAtEnd,
    /// Nothing panics.
    NoPanic,
}

impl Invariant {
    pub fn name(self) -> &'static str {
        match self {
            Self::OneBundlePerSession => "one_bundle_per_session",
            Self::BytesAsWithoutFaults => "bytes_as_without_faults",
            Self::OffsetsMoveWithOutput => "offsets_move_with_output",
            Self::ChangelogAgreesWithOffsets => "changelog_agrees_with_offsets",
            Self::FencedProducerWritesNothingVisible => "fenced_producer_writes_nothing_visible",
            Self::DeadLettersOnce => "dead_letters_once",
            Self::EveryRecordIsAccounted => "every_record_is_accounted",
            Self::LateStaysLate => "late_stays_late",
            Self::SessionsEndInTime => "sessions_end_in_time",
            Self::RunFiguresAreOfTheTopic => "run_figures_are_of_the_topic",
            Self::CountedAfterCommit => "counted_after_commit",
            Self::StateCanBeRestored => "state_can_be_restored",
            Self::OutagesAreWaitedThrough => "outages_are_waited_through",
            Self::PortsAreUsedAsPromised => "ports_are_used_as_promised",
            Self::LagZeroAtEnd => "lag_zero_at_end",
            Self::NothingReadIsCalledLost => "nothing_read_is_called_lost",
            Self::LossIsNoticed => "loss_is_noticed",
            Self::OneTopicOneState => "one_topic_one_state",
            Self::NoOpenTransactionAtEnd => "no_open_transaction_at_end",
            Self::NoPanic => "no_panic",
        }
    }
}

/// An invariant that does not hold, and how that shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub invariant: Invariant,
    pub detail: String,
}

impl Violation {
    pub fn new(invariant: Invariant, detail: impl Into<String>) -> Self {
        Self { invariant, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.name(), self.detail)
    }
}
