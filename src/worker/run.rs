//! The loop of one worker thread: poll, restore, let time pass, commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{info, warn};

use super::backoff::Backoff;
use super::commit::commit;
use super::connection::{Call, Connection};
use super::error::WorkerError;
use super::ports::{BrokerError, ChangelogReader, Consumer, Observer, Polled, Producer, TaskState};
use super::settings::Settings;
use super::tasks::Tasks;
use crate::collector;
use crate::fault::{self, Fault};
use crate::ids::{Partition, TopicId};
use crate::time::Clock;

mod committing;
mod restore;

/// Records taken in one round at most, so that commits and revocations are not kept waiting.
const MAX_RECORDS_A_ROUND: usize = 2_000;
/// Errors passed over in one round at most.
const MAX_ERRORS_A_ROUND: usize = 32;
/// Bundles, dead letters and tombstones waiting for a commit at most; past it a commit comes early. Changed state does not
/// count.
const MAX_PENDING_BYTES: usize = 32 << 20;
/// The longest a poll waits.
const MAX_POLL: Duration = Duration::from_millis(100);
/// How long one look for committed offsets may take; they wait for the transactions of a former owner.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that repeat while something is out of reach are said once in this time.
const REPEAT_WARNING: Duration = Duration::from_secs(5);
/// After the broker was out of reach, time passes for silent partitions once it has been back for this long.
const SETTLE_AFTER_RECONNECT: Duration = Duration::from_secs(2);
/// Records stamped past the wall clock are told of once in this time.
const REPEAT_AHEAD: Duration = Duration::from_secs(60);
/// Lag is told this often.
const LAG_INTERVAL: Duration = Duration::from_millis(500);

/// One worker thread: a member of the group, its producer, its tasks.
pub struct Worker<C, P, L, O, K> {
    consumer: C,
    producer: P,
    changelog: L,
    observer: O,
    clock: K,
    settings: Settings,
    tasks: Tasks,
    /// Given by the group, not yet accepted: their committed offsets are still to be learnt.
    unaccepted: BTreeSet<Partition>,
    apart: BTreeMap<Partition, Apart>,
    /// After commits that failed.
    backoff: Backoff,
    connection: Connection,
    /// What the observer was told of it last.
    told_away: Option<Option<String>>,
    committed_at: Duration,
    lag_told_at: Duration,
    warned_at: Option<Duration>,
    /// Of records stamped past the wall clock.
    warned_of_ahead_at: Option<Duration>,
}

/// A partition whose state and committed offset are not of one commit.
struct Apart {
    since: Duration,
    again_at: Duration,
}

/// What a rebalance asks for.
enum Rebalance {
    Assigned(Vec<Partition>),
    Revoked(Vec<Partition>),
    Lost(Vec<Partition>),
}

impl<C, P, L, O, K> Worker<C, P, L, O, K>
where
    C: Consumer,
    P: Producer<GroupMetadata = C::GroupMetadata>,
    L: ChangelogReader,
    O: Observer,
    K: Clock,
{
    /// A worker for the events `topic`, over its ports.
    pub fn new(
        ports: (C, P, L, O, K),
        topic: Arc<str>,
        settings: Settings,
        sessions: Arc<collector::Settings>,
    ) -> Self {
        let (consumer, producer, changelog, observer, clock) = ports;
        let now = clock.monotonic();
        Self {
            consumer,
            producer,
            changelog,
            observer,
            clock,
            settings,
            tasks: Tasks::new(topic, sessions),
            unaccepted: BTreeSet::new(),
            apart: BTreeMap::new(),
            backoff: Backoff::default(),
            connection: Connection::default(),
            told_away: None,
            committed_at: now,
            lag_told_at: now,
            warned_at: None,
            warned_of_ahead_at: None,
        }
    }

    /// Runs until `stop` is set, then commits, leaves the group and returns.
    ///
    /// # Errors
    /// When it can't go on; nothing uncommitted is visible then.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), WorkerError> {
        while !stop.load(Ordering::Relaxed) {
            self.step()?;
        }
        self.drain()
    }

    /// One round of the loop.
    ///
    /// # Errors
    /// When the worker can't go on.
    pub fn step(&mut self) -> Result<(), WorkerError> {
        self.producer.serve();
        // In this order: a member that was replaced while it stood still hears so before it would fence its successor.
        let rebalances = self.poll()?;
        self.register()?;
        let is_assigned = rebalances.iter().any(|rebalance| matches!(rebalance, Rebalance::Assigned(_)));
        for rebalance in rebalances {
            self.rebalance(rebalance)?;
        }
        self.accept()?;
        if is_assigned && !self.unaccepted.is_empty() {
            // What can't be accepted yet is assigned later: the whole group waits for this answer.
            self.consumer.assign(&[])?;
        }
        self.restore()?;
        let now = self.clock.monotonic();
        self.connection.look(now, self.consumer.is_connected());
        let may_pass = self.connection.connected_for(now).is_some_and(|time| time >= SETTLE_AFTER_RECONNECT);
        let may_pass = may_pass || fault::is_on(Fault::SilenceOutOfReach);
        self.tasks.advance(now, self.clock.now(), may_pass, |partition| self.consumer.ends(partition));
        let is_due = now.saturating_sub(self.committed_at) >= self.settings.commit_interval;
        if is_due || self.tasks.pending_bytes() >= MAX_PENDING_BYTES {
            self.commit()?;
        }
        self.tell_connection();
        self.tell_lag(now);
        self.observer.polled(self.clock.monotonic());
        Ok(())
    }

    /// Commits what there is, unless Kafka is away, and leaves the group.
    ///
    /// # Errors
    /// When the last commit fails for good; its records are read again by the next owner.
    pub fn drain(&mut self) -> Result<(), WorkerError> {
        let committed = if self.connection.may_commit() { self.commit() } else { Ok(()) };
        // Nobody hears a member leave whose broker is away, and a commit may have taken half of the time.
        let left = self.settings.drain_timeout / if self.connection.away().is_none() { 2 } else { 5 };
        let partitions = self.tasks.partitions();
        self.close(&partitions);
        self.consumer.close(left);
        info!(partitions = partitions.len(), "worker drained");
        committed
    }

    /// Registers the producer where it is not.
    fn register(&mut self) -> Result<(), WorkerError> {
        if self.connection.is_registered() {
            return Ok(());
        }
        match self.producer.init_transactions() {
            Ok(()) => {
                self.connection.registered();
                Ok(())
            }
            Err(e) => self.passes(Call::Register, e),
        }
    }

    fn poll(&mut self) -> Result<Vec<Rebalance>, WorkerError> {
        let now = self.clock.monotonic();
        let since_commit = now.saturating_sub(self.committed_at);
        let mut timeout = self.settings.commit_interval.saturating_sub(since_commit).min(MAX_POLL);
        if self.tasks.any_restoring(now) {
            timeout = Duration::ZERO;
        }
        let mut rebalances = Vec::new();
        let mut errors = 0;
        let (tasks, clock) = (&mut self.tasks, &self.clock);
        for _ in 0..MAX_RECORDS_A_ROUND {
            let mut is_quiet = true;
            let wall = clock.now();
            let polled = self.consumer.poll(timeout, &mut |polled| {
                is_quiet = false;
                match polled {
                    Polled::Record(record) => tasks.process(&record, wall),
                    Polled::EndOfPartition(partition) => tasks.reached_end(partition),
                    Polled::Assigned(partitions) => rebalances.push(Rebalance::Assigned(partitions)),
                    Polled::Revoked(partitions) => rebalances.push(Rebalance::Revoked(partitions)),
                    Polled::Lost(partitions) => rebalances.push(Rebalance::Lost(partitions)),
                }
            });
            if let Err(e) = polled {
                if let Err(e) = retriable(e, &mut self.warned_at, now) {
                    self.ended_by(e)?;
                    break;
                }
                errors += 1;
                // What came behind it is not kept waiting: it may be a rebalance.
                is_quiet = errors >= MAX_ERRORS_A_ROUND;
            }
            if is_quiet || !rebalances.is_empty() || tasks.pending_bytes() >= MAX_PENDING_BYTES {
                break;
            }
            timeout = Duration::ZERO;
        }
        Ok(rebalances)
    }

    fn rebalance(&mut self, rebalance: Rebalance) -> Result<(), WorkerError> {
        match rebalance {
            Rebalance::Assigned(partitions) => {
                info!(partitions = list(&partitions), "partitions assigned");
                // Not ready before they are accepted and restored.
                partitions.iter().for_each(|partition| self.observer.task(*partition, TaskState::Restoring, 0));
                self.unaccepted.extend(&partitions);
                if self.unaccepted.is_empty() {
                    self.consumer.assign(&[])?;
                }
                self.observer.joined(true);
            }
            Rebalance::Revoked(partitions) => {
                info!(partitions = list(&partitions), "partitions revoked");
                if fault::is_on(Fault::CommitTwiceOnRevoke) {
                    let (batches, guarantee) = (self.tasks.prepare_commit(), self.settings.processing_guarantee);
                    for _ in 0..if batches.is_empty() { 0 } else { 2 } {
                        commit(&mut self.consumer, &mut self.producer, guarantee, &batches)?;
                    }
                }
                self.commit()?;
                self.give_back(&partitions)?;
            }
            Rebalance::Lost(partitions) => {
                warn!(
                    partitions = list(&partitions),
                    "partitions lost: another member has them, nothing of them is committed"
                );
                if fault::is_on(Fault::CommitWhenLost) {
                    self.commit()?;
                }
                self.give_back(&partitions)?;
            }
        }
        Ok(())
    }

    fn give_back(&mut self, partitions: &[Partition]) -> Result<(), WorkerError> {
        self.close(partitions);
        for partition in partitions.iter().filter(|partition| self.unaccepted.contains(partition)) {
            self.observer.task(*partition, TaskState::Closed, 0);
        }
        self.unaccepted.retain(|partition| !partitions.contains(partition));
        self.apart.retain(|partition, _| !partitions.contains(partition));
        self.consumer.unassign(partitions)?;
        // What comes in the place of all is not known yet, or this member is out of its group.
        if self.unaccepted.is_empty() && self.tasks.partitions().is_empty() {
            self.observer.joined(false);
        }
        Ok(())
    }

    /// Drops tasks, with whatever they have not committed.
    fn close(&mut self, partitions: &[Partition]) {
        for partition in self.tasks.drop_all(partitions) {
            self.changelog.close(partition);
            self.observer.task(partition, TaskState::Closed, 0);
        }
    }

    /// Accepts assigned partitions once their committed offsets are known, and begins to restore them.
    fn accept(&mut self) -> Result<(), WorkerError> {
        let now = self.clock.monotonic();
        let is_due = |partition: &Partition| self.apart.get(partition).is_none_or(|apart| apart.again_at <= now);
        let partitions: Vec<Partition> = self.unaccepted.iter().copied().filter(is_due).collect();
        if partitions.is_empty() || !self.connection.is_registered() || !self.backoff.is_over(now) {
            return Ok(());
        }
        let starts = match self.consumer.committed(&partitions, COMMITTED_TIMEOUT) {
            Ok(starts) => starts,
            Err(e) => return self.passes(Call::Committed, e),
        };
        self.connection.succeeded(Call::Committed);
        self.consumer.assign(&starts)?;
        for start in starts {
            self.unaccepted.remove(&start.partition);
            self.tasks.restore(start, now);
        }
        Ok(())
    }

    /// As [`retriable`], and takes note of what failed.
    fn passes(&mut self, call: Call, e: BrokerError) -> Result<(), WorkerError> {
        if matches!(e, BrokerError::Retriable(_)) {
            self.connection.failed(call, self.clock.monotonic(), &e.to_string());
        }
        retriable(e, &mut self.warned_at, self.clock.monotonic()).or_else(|e| self.ended_by(e))
    }

    /// An error that ends the worker, unless another topic took the events topic's place: that one may just not have what
    /// was asked for.
    fn ended_by(&mut self, e: WorkerError) -> Result<(), WorkerError> {
        self.check_topic()?;
        Err(e)
    }

    /// The id of the events topic, where it is known.
    fn topic(&self) -> Option<TopicId> {
        self.consumer.topic_id().filter(|_| !fault::is_on(Fault::TakeAnyTopic))
    }

    /// Nothing of a topic that took the place of another goes into the other one's state.
    fn check_topic(&mut self) -> Result<(), WorkerError> {
        let Some(topic) = self.topic() else { return Ok(()) };
        self.tasks.are_of(&topic).map_err(|(partition, source)| WorkerError::State { partition, source })
    }

    fn tell_connection(&mut self) {
        let away = self.connection.away();
        if self.told_away.as_ref().is_none_or(|told| told.as_deref() != away) {
            self.observer.away(away);
            if away.is_none() {
                info!("connected to kafka");
            }
            self.told_away = Some(away.map(str::to_owned));
        }
    }

    fn tell_lag(&mut self, now: Duration) {
        if now.saturating_sub(self.lag_told_at) < LAG_INTERVAL {
            return;
        }
        self.lag_told_at = now;
        let lags = self.tasks.lags(self.clock.now(), |partition| self.consumer.ends(partition));
        lags.into_iter().for_each(|(partition, lag)| self.observer.lag(partition, lag));
    }
}

/// Passes over an error that the next round may not meet; others end the worker.
fn retriable(e: BrokerError, warned_at: &mut Option<Duration>, now: Duration) -> Result<(), WorkerError> {
    let waits_for = match e {
        BrokerError::Retriable(_) => "kafka",
        BrokerError::Denied(_) => "a permission",
        e => return Err(e.into()),
    };
    if warned_at.is_none_or(|at| now.saturating_sub(at) >= REPEAT_WARNING) {
        *warned_at = Some(now);
        warn!(cause = %e, "waiting for {waits_for}");
    }
    Ok(())
}

/// Partitions as a log shows them: `0, 3, 7`.
fn list(partitions: &[Partition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
