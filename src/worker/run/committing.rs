//! A worker's commits: what is told of one that succeeded, and what follows one that did not.

use tracing::warn;

use super::super::commit::{self, commit};
use super::super::connection::Call;
use super::super::error::WorkerError;
use super::super::ports::{BrokerError, ChangelogReader, Committed, Consumer, Observer, Producer, TaskState};
use super::{REPEAT_AHEAD, Worker};
use crate::fault::{self, Fault};
use crate::task::{CommitBatch, Counts};
use crate::time::Clock;

impl<C, P, L, O, K> Worker<C, P, L, O, K>
where
    C: Consumer,
    P: Producer<GroupMetadata = C::GroupMetadata>,
    L: ChangelogReader,
    O: Observer,
    K: Clock,
{
    /// Commits what the tasks have, in one transaction, where the producer is registered.
    pub(super) fn commit(&mut self) -> Result<(), WorkerError> {
        self.committed_at = self.clock.monotonic();
        // Nothing can be written yet; what is revoked meanwhile is given back as if it were lost.
        if !self.connection.is_registered() {
            return Ok(());
        }
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
            && matches!(committed, Err(commit::Failed { cause: BrokerError::Undecided(_), .. }))
        {
            committed = commit(&mut self.consumer, &mut self.producer, guarantee, &batches);
        }
        if let Err(failed) = committed {
            return self.abort(failed);
        }
        self.backoff.succeeded();
        self.connection.succeeded(Call::Commit);
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
        self.tell_of_ahead(&batches);
        Ok(())
    }

    fn tell_of_ahead(&mut self, batches: &[CommitBatch]) {
        let furthest = batches.iter().filter_map(|batch| Some((batch.furthest_ahead?, batch.partition))).max();
        let (Some((ahead, partition)), now) = (furthest, self.clock.monotonic()) else { return };
        if self.warned_of_ahead_at.is_none_or(|at| now.saturating_sub(at) >= REPEAT_AHEAD) {
            self.warned_of_ahead_at = Some(now);
            warn!(
                %partition, offset = %ahead.offset, ahead_s = ahead.by.as_secs_f64(),
                "record is stamped past this machine's clock by more than session.clock_tolerance: its timestamp moves no time; \
                 is the clock of its producer, or of this machine, wrong?"
            );
        }
    }

    /// Gives up a transaction: its tasks are ahead of what the broker has, so they are restored anew.
    fn abort(&mut self, failed: commit::Failed) -> Result<(), WorkerError> {
        let commit::Failed { step, cause } = failed;
        let now = self.clock.monotonic();
        let ended = match &cause {
            BrokerError::Abortable(_) | BrokerError::Retriable(_) | BrokerError::Denied(_) => self.producer.abort(),
            BrokerError::TooLarge(_) => {
                self.observer.refused_for_size();
                self.producer.abort()
            }
            BrokerError::Undecided(_) => Err(cause.clone()),
            _ => return Err(cause.into()),
        };
        let pause_ms = self.backoff.failed(now).as_millis();
        warn!(%cause, pause_ms, "commit failed, its records are processed again");
        // Whoever refuses something has answered.
        if matches!(cause, BrokerError::Retriable(_) | BrokerError::Undecided(_)) {
            self.connection.failed(Call::Commit, self.clock.monotonic(), &cause.to_string());
        }
        match ended {
            Ok(()) => {}
            Err(BrokerError::Undecided(text)) => {
                warn!(cause = text, "a new producer is registered, which decides the transaction");
                if !fault::is_on(Fault::GoOnUndecided) {
                    self.connection.unregistered();
                }
            }
            Err(e) => return Err(e.into()),
        }
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
}
