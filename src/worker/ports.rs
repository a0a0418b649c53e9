//! What a worker needs from the outside: Kafka's consumer, producer and changelog, and somebody who watches.
//!
//! The real ports are in `kafka` and `metrics`; a simulated broker can implement the same. All calls come from the
//! worker's own thread. Every call that can block takes or has a deadline.

use std::time::Duration;

use thiserror::Error;

use super::commit::Step;
use crate::ids::{Offset, Partition, TopicId};
use crate::task::{Bundle, ChangelogEntry, CommittedOffset, Counts, DeadLetter, FinishedSession, Record, StateSize};
use crate::time::Timestamp;

/// What went wrong at the broker, by what the caller must do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BrokerError {
    /// Nothing was lost; the same call may be made again.
    #[error("{0}")]
    Retriable(String),
    /// The transaction must be aborted and its records processed again.
    #[error("{0}")]
    Abortable(String),
    /// The principal lacks the permission that the text names. Within a transaction as `Abortable`, else as `Retriable`;
    /// it may be given later.
    #[error("{0}")]
    Denied(String),
    /// A topic refused a record for its size. As `Abortable`: what is sent there next is smaller.
    #[error("{0}")]
    TooLarge(String),
    /// Another producer has this `transactional.id`, or the member left its group: this worker must end.
    #[error("fenced: {0}")]
    Fenced(String),
    /// The committed offset is no longer on the broker: going on would skip records silently.
    #[error("records were deleted before they were read: {0}")]
    RecordsLost(String),
    /// The topics can't work together; the text says what a person is to do.
    #[error("{0}")]
    Misconfigured(String),
    /// The client can't end its transaction, or does not know how it ended. The producer is to be
    /// [registered](Producer::init_transactions) anew, which decides the transaction; until then nothing committed may be read.
    #[error("{0}")]
    Undecided(String),
    /// The client can't go on.
    #[error("{0}")]
    Fatal(String),
}

/// What one poll brought.
#[derive(Debug)]
pub enum Polled<'a> {
    Record(Record<'a>),
    /// The partition's position reached its end: nothing more to read for now.
    EndOfPartition(Partition),
    /// The group gave these partitions to this member. To be answered with [`Consumer::assign`].
    Assigned(Vec<Partition>),
    /// The group takes these back. To be answered with [`Consumer::unassign`] once their work is committed.
    Revoked(Vec<Partition>),
    /// These were given to another member already. To be answered with [`Consumer::unassign`], without a commit.
    Lost(Vec<Partition>),
}

/// A partition and where to begin reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    pub partition: Partition,
    pub committed: CommittedOffset,
    /// The committed offset, or else where the partition began when it was asked for: what is deleted before it is read
    /// from then on is missed.
    pub from: Offset,
}

/// Where a partition ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The last stable offset: below it every transaction is decided, and nothing past it can be read.
    pub stable: Offset,
    /// The high watermark: the offset of the next record to be written.
    pub high: Offset,
}

impl Ends {
    /// The records, markers counted, that can't be read before a transaction of their producer is decided.
    #[must_use]
    pub fn undecided(self) -> i64 {
        (self.high.0 - self.stable.0).max(0)
    }
}

/// A member of the consumer group.
pub trait Consumer {
    /// The group's metadata as a transaction needs it; stale after the next rebalance.
    type GroupMetadata;

    /// Waits up to `timeout` for one thing to happen and hands it to `visit`; returns without a visit when nothing did.
    ///
    /// # Errors
    /// `Retriable` while the broker or topic is not there, `RecordsLost` and `Fatal` when reading can't go on.
    fn poll(&mut self, timeout: Duration, visit: &mut dyn FnMut(Polled<'_>)) -> Result<(), BrokerError>;

    /// The stable committed offsets of these partitions: those of pending transactions are waited for. Where none is, the
    /// partition's beginning; partitions whose leader does not tell it now are left out.
    ///
    /// # Errors
    /// `Retriable` while the coordinator, a leader or a pending transaction makes it wait past `timeout`.
    fn committed(&mut self, partitions: &[Partition], timeout: Duration) -> Result<Vec<Start>, BrokerError>;

    /// Accepts partitions, paused at their start.
    ///
    /// # Errors
    /// `Fatal` when the client refuses.
    fn assign(&mut self, starts: &[Start]) -> Result<(), BrokerError>;

    /// Lets records of a paused partition come.
    ///
    /// # Errors
    /// `Fatal` when the client refuses.
    fn resume(&mut self, partition: Partition) -> Result<(), BrokerError>;

    /// Gives partitions back. No record of theirs is delivered afterwards.
    ///
    /// # Errors
    /// `Fatal` when the client refuses.
    fn unassign(&mut self, partitions: &[Partition]) -> Result<(), BrokerError>;

    /// The group's metadata, read anew.
    ///
    /// # Errors
    /// `Abortable` when this member has not joined its group.
    fn group_metadata(&mut self) -> Result<Self::GroupMetadata, BrokerError>;

    /// Commits offsets outside a transaction, for `at_least_once`, with the mark that state goes with them.
    ///
    /// # Errors
    /// As for a transaction's commit.
    fn commit_offsets(&mut self, offsets: &[(Partition, Offset)]) -> Result<(), BrokerError>;

    /// Where partitions are read next: past every record that was polled, and past the control records and aborted batches
    /// behind it. Left out are partitions of which nothing was polled since they were assigned, or a record was dropped.
    ///
    /// # Errors
    /// `Fatal` when the client refuses.
    fn positions(&mut self) -> Result<Vec<(Partition, Offset)>, BrokerError>;

    /// The id of the events topic, as far as the client knows. When the topic is replaced it is told before the first record
    /// of the new one comes.
    fn topic_id(&self) -> Option<TopicId>;

    /// The last known ends of a partition, a second old at most; `None` while unknown.
    fn ends(&self, partition: Partition) -> Option<Ends>;

    /// Whether a broker answers, as far as the client knows.
    fn is_connected(&self) -> bool;

    /// Leaves the group within `timeout`.
    fn close(&mut self, timeout: Duration);
}

/// One record to write.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing<'a> {
    Bundle(&'a Bundle),
    Changelog(Partition, &'a ChangelogEntry),
    DeadLetter(&'a DeadLetter),
}

/// A transactional producer; without transactions (`at_least_once`) `begin` and `commit` only delimit and flush.
pub trait Producer {
    /// The consumer's group metadata.
    type GroupMetadata;

    /// Registers the `transactional.id`: fences its predecessor and ends that one's open transaction. Called again, it is
    /// its own predecessor: how its last transaction ended is decided then.
    ///
    /// # Errors
    /// `Retriable` while the broker is not there; one try is short, so that the loop goes on.
    fn init_transactions(&mut self) -> Result<(), BrokerError>;

    /// Sees to what the client has to do while nothing is written, such as to log in anew.
    fn serve(&mut self) {}

    /// Begins a transaction.
    ///
    /// # Errors
    /// `Fenced` or `Fatal`.
    fn begin(&mut self) -> Result<(), BrokerError>;

    /// Queues a record; waits while the queue is full.
    ///
    /// # Errors
    /// `Abortable` when it can't be queued or delivered, `Undecided` when the client can't go on with it.
    fn send(&mut self, record: Outgoing<'_>) -> Result<(), BrokerError>;

    /// Adds input offsets to the transaction, with the mark that state goes with them.
    ///
    /// # Errors
    /// `Abortable` when the group has moved on, `Undecided` when there is no answer in time, `Fenced` or `Fatal`.
    fn send_offsets(&mut self, offsets: &[(Partition, Offset)], group: &Self::GroupMetadata)
    -> Result<(), BrokerError>;

    /// Commits; all queued records are delivered first.
    ///
    /// # Errors
    /// `Abortable`, `Undecided`, `Fenced` or `Fatal`; after the last two the outcome is for the next owner to find out.
    fn commit(&mut self) -> Result<(), BrokerError>;

    /// Aborts: nothing queued since `begin` becomes visible.
    ///
    /// # Errors
    /// `Undecided` when there is no answer in time, `Fenced` or `Fatal`.
    fn abort(&mut self) -> Result<(), BrokerError>;
}

/// How far a restore has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestoreProgress {
    /// The end is not settled yet, or records are left.
    Restoring {
        /// Offsets between the position and the end, so records at most: transaction markers and compaction take some.
        /// `None` while unknown.
        left: Option<u64>,
    },
    /// Every record below the high watermark was read.
    Done,
}

/// Reads changelog partitions from their start, committed records only.
pub trait ChangelogReader {
    /// Begins a restore of `partition`; the end is the high watermark of now, pending transactions included.
    ///
    /// # Errors
    /// `Retriable` while the broker is not there, `Misconfigured` when the changelog has no such partition.
    fn open(&mut self, partition: Partition) -> Result<(), BrokerError>;

    /// Reads for up to `budget` and hands each entry to `visit`: key, value, offset.
    ///
    /// # Errors
    /// `Retriable` while the broker is not there, `Fatal` when the changelog can't be read.
    #[expect(clippy::type_complexity, reason = "a visitor of borrowed parts")]
    fn read(
        &mut self,
        partition: Partition,
        budget: Duration,
        visit: &mut dyn FnMut(&[u8], Option<&[u8]>),
    ) -> Result<RestoreProgress, BrokerError>;

    /// Ends a restore, finished or not.
    fn close(&mut self, partition: Partition);
}

/// A commit that succeeded, for those who count.
#[derive(Debug)]
pub struct Committed<'a> {
    pub counts: &'a Counts,
    /// The sessions whose bundles were written.
    pub finished: &'a [&'a FinishedSession],
    /// The wall clock once it had succeeded.
    pub at: Timestamp,
    /// Bundles written.
    pub bundles: usize,
    /// Changelog records and bytes written.
    pub changelog_records: usize,
    pub changelog_bytes: usize,
    /// From the begin of the transaction to its commit.
    pub took: Duration,
    /// Per partition of the worker: what it holds after the commit.
    pub state: &'a [(Partition, StateSize)],
}

/// How far behind its partition's end, the high watermark, a task is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Lag {
    pub records: i64,
    /// Of these, how many wait for the end of another producer's transaction.
    pub undecided: i64,
    /// The age of the next unread record, as far as it is known; 0 when none is left.
    pub seconds: f64,
}

/// A partition's life within a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    Restoring,
    Running,
    /// Revoked or lost; its series leave.
    Closed,
}

/// Watches a worker. Nothing it does may fail or block.
pub trait Observer {
    /// A batch is on the broker, once.
    fn committed(&mut self, commit: &Committed<'_>);
    /// A transaction was given up at this step; its records are processed again.
    fn aborted(&mut self, at: Step);
    /// A record was refused for its size.
    fn refused_for_size(&mut self) {}
    /// The group has said what this member owns, be it nothing (`true`), or it took all back and has not said since what
    /// is to come (`false`).
    fn joined(&mut self, joined: bool);
    /// A task changed state; `restored` are the changelog records read so far.
    fn task(&mut self, partition: Partition, state: TaskState, restored: u64);
    /// How many records of its changelog a restoring task has still to read, at most; `None` while unknown.
    fn restoring(&mut self, partition: Partition, left: Option<u64>);
    /// What a restored task brought back.
    fn restored(&mut self, partition: Partition, state: StateSize);
    /// A task's distance to its partition's end.
    fn lag(&mut self, partition: Partition, lag: Lag);
    /// The loop went round, at this monotonic time.
    fn polled(&mut self, at: Duration);
    /// Why the worker's calls of Kafka come to nothing; `None` while they are answered.
    fn away(&mut self, why: Option<&str>);
    /// A commit moved a partition to this position.
    fn progressed(&mut self, partition: Partition, position: Offset);
}
