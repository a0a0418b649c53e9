//! The tasks of one worker: which partitions it has, and how far each has come.
//!
//! ```text
//! assigned -> Restoring -> Running -> revoked: committed, then closed clean
//!                 ^           |    -> lost: dropped without a commit
//!                 `-----------'    -> commit aborted: dropped, restored anew
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::ports::{Ends, Lag, Start};
use super::settings::ProcessingGuarantee;
use super::unread::Unread;
use crate::collector::Settings;
use crate::fault::{self, Fault};
use crate::ids::{Offset, Partition, TopicId, TopicPartition};
use crate::task::{ChangelogState, CommitBatch, PartitionTask, Reading, Record, RestoreError, StateSize};
use crate::time::Timestamp;

/// Time passes for a silent partition in steps of at least this.
const IDLE_STEP: Duration = Duration::from_millis(20);

/// A round takes a tenth of this; after a longer one nobody has looked whether there is something to read.
const MAX_IDLE_STEP: Duration = Duration::from_secs(5);

/// A worker's tasks by partition.
#[derive(Debug)]
pub struct Tasks {
    topic: Arc<str>,
    settings: Arc<Settings>,
    slots: BTreeMap<Partition, Slot>,
}

/// A partition of this worker.
#[derive(Debug)]
enum Slot {
    Restoring(Box<Restoring>),
    Running(Box<Running>),
}

/// A task whose state is being read.
#[derive(Debug)]
pub struct Restoring {
    pub start: Start,
    pub state: ChangelogState,
    /// The changelog reader has it.
    pub is_open: bool,
    /// Changelog records read.
    pub records: u64,
    /// When something was last read, by the monotonic clock.
    pub progressed_at: Duration,
    /// Not read before then, by the monotonic clock: the last try failed.
    pub again_at: Duration,
    /// A record slipped through although the partition is paused: reading has to begin at the start again.
    pub overtaken: bool,
}

#[derive(Debug)]
struct Running {
    task: PartitionTask,
    /// There is nothing to read.
    is_idle: bool,
    /// Something of this assignment was read: before that the client may tell an end of an earlier one.
    has_read: bool,
    /// While time passes by the clock: the monotonic reading up to which it has, and the task's then.
    passing: Option<(Duration, Reading)>,
    unread: Unread,
}

impl Tasks {
    /// No tasks yet.
    #[must_use]
    pub fn new(topic: Arc<str>, settings: Arc<Settings>) -> Self {
        Self { topic, settings, slots: BTreeMap::new() }
    }

    /// Begins to restore a partition.
    pub fn restore(&mut self, start: Start, now: Duration) {
        let restoring = Restoring {
            start,
            state: ChangelogState::default(),
            is_open: false,
            records: 0,
            progressed_at: now,
            again_at: now,
            overtaken: false,
        };
        self.slots.insert(start.partition, Slot::Restoring(Box::new(restoring)));
    }

    /// The tasks that are being restored.
    pub fn restoring(&mut self) -> impl Iterator<Item = &mut Restoring> {
        self.slots.values_mut().filter_map(|slot| match slot {
            Slot::Restoring(restoring) => Some(&mut **restoring),
            Slot::Running(_) => None,
        })
    }

    /// Whether any task can be read on at `now`.
    #[must_use]
    pub fn any_restoring(&self, now: Duration) -> bool {
        self.slots.values().any(|slot| matches!(slot, Slot::Restoring(restoring) if restoring.again_at <= now))
    }

    /// Whether all running tasks are of this topic; the first one that is not.
    ///
    /// # Errors
    /// When a task's state is of another topic.
    pub fn are_of(&mut self, topic: &TopicId) -> Result<(), (Partition, RestoreError)> {
        self.running_mut().try_for_each(|Running { task, .. }| task.is_of(topic).map_err(|e| (task.partition(), e)))
    }

    /// Starts a task whose state was read to the end, of records of `topic` where that is known.
    ///
    /// # Errors
    /// When the state can't be read, or is not what the group's offset needs.
    pub fn start(
        &mut self,
        partition: Partition,
        guarantee: ProcessingGuarantee,
        topic: Option<&TopicId>,
    ) -> Result<(), RestoreError> {
        let Some(Slot::Restoring(restoring)) = self.slots.remove(&partition) else { return Ok(()) };
        // First of all: the group's offsets are deleted with their topic.
        topic.map_or(Ok(()), |topic| restoring.state.check_topic(topic))?;
        let Start { committed, from, .. } = restoring.start;
        match guarantee {
            // The check would mend what these two do.
            _ if fault::is_on(Fault::RestoreToStableEnd) || fault::is_on(Fault::TakeUnstableOffsets) => {}
            ProcessingGuarantee::ExactlyOnce => restoring.state.check_exactly_once(committed)?,
            ProcessingGuarantee::AtLeastOnce => restoring.state.check_at_least_once(committed)?,
        }
        let source = TopicPartition { topic: Arc::clone(&self.topic), partition };
        let task = PartitionTask::restore(source, from, restoring.state, Arc::clone(&self.settings))?;
        let running = Running { task, is_idle: false, has_read: false, passing: None, unread: Unread::default() };
        self.slots.insert(partition, Slot::Running(Box::new(running)));
        Ok(())
    }

    /// Drops tasks with whatever they have not committed; returns those that were there.
    pub fn drop_all(&mut self, partitions: &[Partition]) -> Vec<Partition> {
        partitions.iter().copied().filter(|partition| self.slots.remove(partition).is_some()).collect()
    }

    /// The partitions of this worker.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        self.slots.keys().copied().collect()
    }

    /// Hands a record to its task.
    pub fn process(&mut self, record: &Record<'_>, wall: Timestamp) {
        match self.slots.get_mut(&record.partition) {
            Some(Slot::Running(running)) => {
                (running.is_idle, running.has_read) = (false, true);
                // A record that was delivered before is not new.
                if record.offset >= running.task.next_offset() || fault::is_on(Fault::TakeRedelivered) {
                    running.unread.read(record.timestamp);
                    running.task.process(record, wall);
                }
            }
            Some(Slot::Restoring(restoring)) => restoring.overtaken = true,
            // Of a partition that is not this worker's any more: its next owner reads it.
            None => {}
        }
    }

    /// Takes note that a partition is read up to this position, which may be past its last record.
    pub fn reached(&mut self, partition: Partition, position: Offset) {
        if let Some(Slot::Running(running)) = self.slots.get_mut(&partition) {
            running.task.reached(position);
        }
    }

    /// Takes note that a partition has nothing more to read.
    pub fn reached_end(&mut self, partition: Partition) {
        if let Some(Slot::Running(running)) = self.slots.get_mut(&partition) {
            running.is_idle = true;
        }
    }

    /// Lets time pass, up to the wall clock, for the partitions that have nothing left to read and for those whose time waits;
    /// `ends` tells where each ends. It does not where an open transaction hides the end, nor while the broker is out of
    /// reach, when `may_pass` is false: then nobody knows whether there is something to read.
    pub fn advance(
        &mut self,
        now: Duration,
        wall: Timestamp,
        may_pass: bool,
        ends: impl Fn(Partition) -> Option<Ends>,
    ) {
        for Running { task, is_idle, has_read, passing, .. } in self.running_mut() {
            let ends = ends(task.partition());
            let hides_any =
                ends.is_some_and(|ends| ends.undecided() > 0) && !fault::is_on(Fault::SilenceBehindTransaction);
            // Where records keep coming, the client never says that it has reached the end.
            let is_at_end = *has_read && ends.is_some_and(|ends| task.next_offset() >= ends.high);
            let has_read_all = *is_idle || is_at_end;
            let Some(reading) = task.reading().filter(|_| has_read_all || task.waits()) else {
                *passing = None;
                continue;
            };
            let (since, from) = *passing.get_or_insert((now, reading));
            let elapsed = now.saturating_sub(since);
            if !may_pass || hides_any || (elapsed > MAX_IDLE_STEP && !fault::is_on(Fault::SilenceOfAnyLength)) {
                *passing = Some((now, reading));
            } else if elapsed >= IDLE_STEP {
                // Whole milliseconds, as the task counts them; the rest is for the next time.
                let whole = Duration::from_millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
                task.advance(from, whole, wall);
                *passing = task.reading().map(|reading| (since + whole, reading));
            }
        }
    }

    /// What every task has to commit.
    pub fn prepare_commit(&mut self) -> Vec<CommitBatch> {
        self.running_mut().filter_map(|running| running.task.prepare_commit()).collect()
    }

    /// Bytes waiting for the next commit.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.running().map(|running| running.task.pending_bytes()).sum()
    }

    /// How far each running task is from the end of its partition; left out where the end is unknown.
    pub fn lags(&mut self, wall: Timestamp, ends: impl Fn(Partition) -> Option<Ends>) -> Vec<(Partition, Lag)> {
        let lag = |running: &mut Running| {
            let partition = running.task.partition();
            let ends = ends(partition);
            let undecided = ends.map_or(0, Ends::undecided);
            let records =
                if running.is_idle { undecided } else { (ends?.high.0 - running.task.next_offset().0).max(0) };
            let seconds = running.unread.age(wall, records > 0).as_secs_f64();
            Some((partition, Lag { records, undecided: undecided.min(records), seconds }))
        };
        self.running_mut().filter_map(lag).collect()
    }

    /// What one partition holds.
    #[must_use]
    pub fn state_size_of(&self, partition: Partition) -> StateSize {
        let running = self.running().find(|running| running.task.partition() == partition);
        running.map(|running| running.task.state_size()).unwrap_or_default()
    }

    /// What each partition holds.
    #[must_use]
    pub fn state_sizes(&self) -> Vec<(Partition, StateSize)> {
        self.running().map(|running| (running.task.partition(), running.task.state_size())).collect()
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.slots.values().filter_map(|slot| match slot {
            Slot::Running(running) => Some(&**running),
            Slot::Restoring(_) => None,
        })
    }

    fn running_mut(&mut self) -> impl Iterator<Item = &mut Running> {
        self.slots.values_mut().filter_map(|slot| match slot {
            Slot::Running(running) => Some(&mut **running),
            Slot::Restoring(_) => None,
        })
    }
}
