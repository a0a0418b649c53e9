//! Faults put in on purpose, so that `tests/simulation` can show that it would find them.
//!
//! Without the feature `deliberate-faults`, which no release has, [`is_on`] is `false` to the compiler and nothing of
//! them is left. Each site stands where the mistake would be made.

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A mistake that the code could have.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// Offsets are committed on their own, once the transaction is through.
    OffsetsAfterTransaction,
    /// The offset after the last record is committed, not the position.
    CommitPastLastRecord,
    /// No offsets are sent.
    NoOffsets,
    /// The state is written in a transaction of its own, once the output's is through.
    StateAfterTransaction,
    /// A revocation commits its batches, and then again.
    CommitTwiceOnRevoke,
    /// Lost partitions are committed, by metadata that a broker takes from anybody.
    CommitWhenLost,
    /// The group's metadata is read once and kept through rebalances.
    KeepGroupMetadata,
    /// After an abort the tasks go on, although they are ahead of what is committed.
    GoOnAfterAbort,
    /// A commit without an answer is made again as a new transaction.
    RetryUnknownOutcome,
    /// After a commit without an answer the worker goes on with the same producer, before the transaction is decided.
    GoOnUndecided,
    /// A restore that another member overtook ends the worker.
    StopWhenOvertaken,
    /// State and offset that are not of one commit end the worker at once.
    StopWhenApart,
    /// A state that has too much, as from a leader that lacks tombstones, ends the worker at once.
    StopWhenLeaderLags,
    /// The events topic is known by its name.
    TakeAnyTopic,
    /// A restore ends at the last stable offset of its beginning, and nobody compares it with the committed one.
    RestoreToStableEnd,
    /// Committed offsets are taken as they are, pending ones not waited for, and nobody compares them with the state.
    TakeUnstableOffsets,
    /// Reading goes on behind a record that slipped through during the restore.
    ForgetSlippedRecord,
    /// A record that comes again is processed again.
    TakeRedelivered,
    /// Time passes for a silent partition while the broker is out of reach.
    SilenceOutOfReach,
    /// Time passes for a partition whose end is hidden behind another producer's open transaction.
    SilenceBehindTransaction,
    /// Time in which nobody looked counts as silence.
    SilenceOfAnyLength,
    /// The state of one changed session is left out of a commit.
    SkipDirtySession,
    /// The state of one changed response is left out of a commit.
    SkipDirtyResponse,
    /// Markers of finished sessions are not restored.
    ForgetClosedMarkers,
    /// A finished session stays in the changelog.
    KeepFinishedSession,
    /// An idle end is emitted and not recorded.
    ForgetIdleEnd,
    /// A single session's timestamp moves the task's time, however far.
    BelieveOneWitness,
    /// The task's time is not recorded.
    ForgetTime,
    /// A session's last sequence number is not in its state.
    ForgetSequence,
    /// Facts that wait for the stream start are not in a session's state.
    ForgetHeldFacts,
}

/// Whether this fault is put in, on this thread.
#[cfg(not(feature = "deliberate-faults"))]
#[must_use]
pub const fn is_on(_: Fault) -> bool {
    false
}

#[cfg(feature = "deliberate-faults")]
pub use switch::{is_on, put_in};

#[cfg(feature = "deliberate-faults")]
mod switch {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        static ON: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Whether this fault is put in, on this thread.
    #[must_use]
    pub fn is_on(fault: Fault) -> bool {
        ON.get() == Some(fault)
    }

    /// Puts a fault in, on this thread, in the place of the one before.
    pub fn put_in(fault: Option<Fault>) {
        ON.set(fault);
    }
}
