//! The loop of one worker thread: poll, restore, let time pass, commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{info, warn};

use super::backoff::Backoff;
use super::commit::{self, commit};
use super::error::WorkerError;
use super::ports::{BrokerError, ChangelogReader, Committed, Consumer, Observer, Polled, Producer, TaskState};
use super::settings::Settings;
use super::tasks::Tasks;
use crate::collector;
use crate::fault::{self, Fault};
use crate::ids::{Partition, TopicId};
use crate::task::Counts;
use crate::time::Clock;

mod restore;

/// Records taken in one round at most, so that commits and revocations are not kept waiting.
const MAX_RECORDS_A_ROUND: usize = 2_000;
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
    committed_at: Duration,
    lag_told_at: Duration,
    warned_at: Option<Duration>,
    connected_since: Option<Duration>,
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
            committed_at: now,
            lag_told_at: now,
            warned_at: None,
            connected_since: None,
        }
    }

    /// Runs until `stop` is set, then commits, leaves the group and returns.
    ///
    /// # Errors
    /// When it can't go on; nothing uncommitted is visible then.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), WorkerError> {
        while !stop.load(Ordering::Relaxed) && !self.init_transactions()? {}
        while !stop.load(Ordering::Relaxed) {
            self.step()?;
        }
        self.drain()
    }

    /// Registers the producer; `false` while the broker is out of reach.
    ///
    /// # Errors
    /// When the producer can't be registered at all.
    pub fn init_transactions(&mut self) -> Result<bool, WorkerError> {
        self.observer.polled(self.clock.monotonic());
        match self.producer.init_transactions() {
            Ok(()) => Ok(true),
            Err(e) => self.retriable(e).map(|()| false),
        }
    }

    /// One round of the loop.
    ///
    /// # Errors
    /// When the worker can't go on.
    pub fn step(&mut self) -> Result<(), WorkerError> {
        self.producer.serve();
        let rebalances = self.poll()?;
        for rebalance in rebalances {
            self.rebalance(rebalance)?;
        }
        self.accept()?;
        self.restore()?;
        let now = self.clock.monotonic();
        self.observe_connection(now);
        let may_pass = self.connected_since.is_some_and(|since| now.saturating_sub(since) >= SETTLE_AFTER_RECONNECT);
        self.tasks.advance(now, may_pass || fault::is_on(Fault::SilenceOutOfReach));
        let is_due = now.saturating_sub(self.committed_at) >= self.settings.commit_interval;
        if is_due || self.tasks.pending_bytes() >= MAX_PENDING_BYTES {
            self.commit()?;
        }
        self.tell_lag(now);
        self.observer.polled(now);
        Ok(())
    }

    /// Commits what there is and leaves the group.
    ///
    /// # Errors
    /// When the last commit fails for good; its records are read again by the next owner.
    pub fn drain(&mut self) -> Result<(), WorkerError> {
        let committed = self.commit();
        let partitions = self.tasks.partitions();
        self.close(&partitions);
        self.consumer.close(self.settings.drain_timeout / 2);
        info!(partitions = partitions.len(), "worker drained");
        committed
    }

    fn poll(&mut self) -> Result<Vec<Rebalance>, WorkerError> {
        let wall = self.clock.now();
        let now = self.clock.monotonic();
        let since_commit = now.saturating_sub(self.committed_at);
        let mut timeout = self.settings.commit_interval.saturating_sub(since_commit).min(MAX_POLL);
        if self.tasks.any_restoring() {
            timeout = Duration::ZERO;
        }
        let mut rebalances = Vec::new();
        let tasks = &mut self.tasks;
        for _ in 0..MAX_RECORDS_A_ROUND {
            let mut is_quiet = true;
            let polled = self.consumer.poll(timeout, &mut |polled| {
                is_quiet = false;
                match polled {
                    Polled::Record(record) => tasks.process(&record, wall),
                    Polled::EndOfPartition(partition) => tasks.reached_end(partition, now),
                    Polled::Assigned(partitions) => rebalances.push(Rebalance::Assigned(partitions)),
                    Polled::Revoked(partitions) => rebalances.push(Rebalance::Revoked(partitions)),
                    Polled::Lost(partitions) => rebalances.push(Rebalance::Lost(partitions)),
                }
            });
            if let Err(e) = polled {
                self.retriable(e)?;
                break;
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
                self.unaccepted.extend(&partitions);
                if self.unaccepted.is_empty() {
                    self.consumer.assign(&[])?;
                    self.observer.joined();
                }
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
        self.observer.joined();
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
        if partitions.is_empty() || !self.backoff.is_over(now) {
            return Ok(());
        }
        let starts = match self.consumer.committed(&partitions, COMMITTED_TIMEOUT) {
            Ok(starts) => starts,
            Err(e) => return self.retriable(e),
        };
        self.consumer.assign(&starts)?;
        self.unaccepted.retain(|partition| !partitions.contains(partition));
        for start in starts {
            self.tasks.restore(start, now);
            self.observer.task(start.partition, TaskState::Restoring, 0);
        }
        self.observer.joined();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), WorkerError> {
        self.committed_at = self.clock.monotonic();
        self.check_topic()?;
        for (partition, position) in self.consumer.positions()? {
            self.tasks.reached(partition, position);
        }
        let batches = self.tasks.prepare_commit();
        if batches.is_empty() {
            return Ok(());
        }
        let began = self.clock.monotonic();
        let guarantee = self.settings.processing_guarantee;
        let mut committed = commit(&mut self.consumer, &mut self.producer, guarantee, &batches);
        if fault::is_on(Fault::RetryUnknownOutcome)
            && matches!(committed, Err(commit::Failed { cause: BrokerError::Fatal(_), .. }))
        {
            committed = commit(&mut self.consumer, &mut self.producer, guarantee, &batches);
        }
        if let Err(failed) = committed {
            return self.abort(failed);
        }
        self.backoff.succeeded();
        let took = self.clock.monotonic().saturating_sub(began);
        let mut counts = Counts::default();
        batches.iter().for_each(|batch| counts.merge(&batch.counts));
        let finished: Vec<_> = batches.iter().flat_map(|batch| &batch.finished).collect();
        let changelog = || batches.iter().flat_map(|batch| &batch.changelog);
        self.observer.committed(&Committed {
            counts: &counts,
            finished: &finished,
            at: self.clock.now(),
            bundles: batches.iter().map(|batch| batch.bundles.len()).sum(),
            changelog_records: changelog().count(),
            changelog_bytes: changelog().map(|e| e.key.len() + e.value.as_ref().map_or(0, Vec::len)).sum(),
            took,
            state: &self.tasks.state_sizes(),
        });
        for batch in &batches {
            self.observer.progressed(batch.partition, batch.next_offset);
        }
        Ok(())
    }

    /// Gives up a transaction: its tasks are ahead of what the broker has, so they are restored anew.
    fn abort(&mut self, failed: commit::Failed) -> Result<(), WorkerError> {
        let commit::Failed { step, cause } = failed;
        if !matches!(cause, BrokerError::Abortable(_) | BrokerError::Retriable(_) | BrokerError::Denied(_)) {
            return Err(cause.into());
        }
        let pause = self.backoff.failed(self.clock.monotonic());
        let pause_ms = pause.as_millis();
        warn!(%cause, pause_ms, "commit failed, transaction is aborted and its records are processed again");
        self.producer.abort()?;
        self.observer.aborted(step);
        if fault::is_on(Fault::GoOnAfterAbort) {
            return Ok(());
        }
        let partitions = self.tasks.partitions();
        self.close(&partitions);
        self.consumer.unassign(&partitions)?;
        // Not ready meanwhile.
        partitions.iter().for_each(|partition| self.observer.task(*partition, TaskState::Restoring, 0));
        self.unaccepted.extend(partitions);
        Ok(())
    }

    /// Passes over an error that the next round may not meet; others end the worker.
    fn retriable(&mut self, e: BrokerError) -> Result<(), WorkerError> {
        let waits_for = match e {
            BrokerError::Retriable(_) => "kafka",
            BrokerError::Denied(_) => "a permission",
            e => {
                // Another topic may just not have that offset.
                self.check_topic()?;
                return Err(e.into());
            }
        };
        let now = self.clock.monotonic();
        if self.warned_at.is_none_or(|at| now.saturating_sub(at) >= REPEAT_WARNING) {
            self.warned_at = Some(now);
            warn!(cause = %e, "waiting for {waits_for}");
        }
        Ok(())
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

    fn observe_connection(&mut self, now: Duration) {
        let connected = self.consumer.is_connected();
        if connected != self.connected_since.is_some() {
            self.connected_since = connected.then_some(now);
            self.observer.connected(connected);
            if connected {
                info!("connected to kafka");
            }
        }
    }

    fn tell_lag(&mut self, now: Duration) {
        if now.saturating_sub(self.lag_told_at) < LAG_INTERVAL {
            return;
        }
        self.lag_told_at = now;
        let lags = self.tasks.lags(self.clock.now(), |partition| self.consumer.end_offset(partition));
        lags.into_iter().for_each(|(partition, lag)| self.observer.lag(partition, lag));
    }
}

/// Partitions as a log shows them: `0, 3, 7`.
fn list(partitions: &[Partition]) -> String {
    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
