//! Restores: reading changelogs a little in each round, and starting tasks whose state is that of the committed offset.

use std::time::Duration;

use tracing::{info, warn};

use super::super::connection::Call;
use super::super::error::WorkerError;
use super::super::ports::{ChangelogReader, Consumer, Observer, Producer, RestoreProgress, Start, TaskState};
use super::super::tasks::Restoring;
use super::{Apart, COMMITTED_TIMEOUT, Worker};
use crate::fault::{self, Fault};
use crate::task::RestoreError;
use crate::time::Clock;

/// How long one round may read a changelog.
const RESTORE_BUDGET: Duration = Duration::from_millis(50);
/// Before a changelog that could not be read is read again.
const RESTORE_PAUSE: Duration = Duration::from_secs(1);
/// Before a state that can't be started from is read again.
const APART_PAUSE: Duration = Duration::from_secs(1);

impl<C, P, L, O, K> Worker<C, P, L, O, K>
where
    C: Consumer,
    P: Producer<GroupMetadata = C::GroupMetadata>,
    L: ChangelogReader,
    O: Observer,
    K: Clock,
{
    /// Reads what is to be restored for a while, and starts what was read to its end.
    pub(super) fn restore(&mut self) -> Result<(), WorkerError> {
        let now = self.clock.monotonic();
        let mut read = Vec::new();
        let mut unreachable = None;
        let budget = RESTORE_BUDGET / u32::try_from(self.tasks.restoring().count()).unwrap_or(1).max(1);
        let mut due: Vec<&mut Restoring> =
            self.tasks.restoring().filter(|restoring| restoring.again_at <= now).collect();
        // Those that can be read go before those that could not.
        due.sort_by_key(|restoring| restoring.again_at);
        for restoring in due {
            let partition = restoring.start.partition;
            let failed = |source| WorkerError::Restore { partition, source };
            // Nobody can read while the broker is away, and a new process could not either. One that is away is waited for
            // in one call a round: the loop goes on, and the one that waits for longest has the next try.
            let pauses = |restoring: &mut Restoring| {
                restoring.progressed_at = now;
                restoring.again_at = self.clock.monotonic() + RESTORE_PAUSE;
            };
            if !restoring.is_open {
                if let Err(e) = self.changelog.open(partition) {
                    pauses(restoring);
                    unreachable = Some(e);
                    break;
                }
                restoring.is_open = true;
            }
            let before = restoring.records;
            let mut applied = Ok(());
            let (state, records) = (&mut restoring.state, &mut restoring.records);
            let progress = self.changelog.read(partition, budget, &mut |key, value| {
                *records += 1;
                if applied.is_ok() {
                    applied = state.apply(key, value);
                }
            });
            applied.map_err(failed)?;
            if restoring.records > before {
                restoring.progressed_at = now;
                self.connection.succeeded(Call::Restore);
                self.observer.task(partition, TaskState::Restoring, restoring.records);
            }
            match progress {
                Ok(RestoreProgress::Done) => {
                    self.connection.succeeded(Call::Restore);
                    read.push((restoring.start, restoring.records, restoring.overtaken));
                }
                Ok(RestoreProgress::Restoring { left }) => {
                    self.observer.restoring(partition, left);
                    if now.saturating_sub(restoring.progressed_at) >= self.settings.restore_timeout {
                        return Err(WorkerError::RestoreStalled(partition, self.settings.restore_timeout));
                    }
                }
                Err(e) => {
                    pauses(restoring);
                    unreachable = Some(e);
                    break;
                }
            }
        }
        for (start, records, overtaken) in read {
            let partition = start.partition;
            self.changelog.close(partition);
            let guarantee = self.settings.processing_guarantee;
            if let Err(source) = self.tasks.start(partition, guarantee, self.topic().as_ref()) {
                if fault::is_on(Fault::StopWhenOvertaken) || !self.may_come_together(start, &source) {
                    return Err(WorkerError::Restore { partition, source });
                }
                self.consumer.unassign(&[partition])?;
                self.unaccepted.insert(partition);
                continue;
            }
            if overtaken && !fault::is_on(Fault::ForgetSlippedRecord) {
                self.consumer.unassign(&[partition])?;
                self.consumer.assign(&[start])?;
            }
            self.apart.remove(&partition);
            self.consumer.resume(partition)?;
            self.observer.task(partition, TaskState::Running, records);
            self.observer.restored(partition, self.tasks.state_size_of(partition));
            info!(%partition, records, from = start.from.0, "task restored");
        }
        unreachable.map_or(Ok(()), |e| self.passes(Call::Restore, e))
    }

    /// Whether state and offset that are not of one commit may be so by themselves, when both are read again.
    ///
    /// A coordinator that has the end of a transaction and has not replicated it yet answers with the offset before it, as
    /// if that were stable; where a broker is lost this takes as long as its replicas are waited for. And a leader that
    /// lacks tombstones may be followed by another.
    fn may_come_together(&mut self, start: Start, error: &RestoreError) -> bool {
        if self.may_have_moved(start) {
            return true;
        }
        let stops = match error {
            RestoreError::Surplus { .. } => fault::is_on(Fault::StopWhenLeaderLags),
            _ => fault::is_on(Fault::StopWhenApart),
        };
        if stops || !error.may_pass() {
            return false;
        }
        let now = self.clock.monotonic();
        let apart = self.apart.entry(start.partition).or_insert_with(|| {
            warn!(partition = %start.partition, cause = %error, "state is not that of the committed offset, reading again");
            Apart { since: now, again_at: now }
        });
        apart.again_at = now + APART_PAUSE;
        now.saturating_sub(apart.since) < self.settings.restore_timeout
    }

    /// Whether a partition was perhaps committed since its restore began: then another member has it, this one has not
    /// heard so yet, and its offset and its changelog are of different times.
    fn may_have_moved(&mut self, start: Start) -> bool {
        self.consumer
            .committed(&[start.partition], COMMITTED_TIMEOUT)
            .map_or(true, |now| now.iter().all(|now| now.committed != start.committed))
    }
}
