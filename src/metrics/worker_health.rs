//! What is known of one worker's health: pure, time is an argument.
//!
//! Readiness looks at the connection, the assignment and the states of partitions; liveness at polls and offsets.
//! All times are of the one monotonic clock that the worker polls by.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ids::{Offset, Partition};
use crate::worker::{Lag, QueuedBytes, TaskState};

/// A loop that has not gone round for this long is in a call of Kafka that is not answered.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A loop that has not gone round for this long hangs: no call waits so long for a broker that is away.
pub(super) const POLL_LIMIT: Duration = Duration::from_secs(120);

/// A partition with records left that has not moved for this long, at a broker that answers, is stuck: a consumer can
/// go silent without an error.
pub(super) const PROGRESS_LIMIT: Duration = Duration::from_secs(120);

impl PartitionHealth {
    /// Whether there are records that it can read.
    fn is_behind(&self) -> bool {
        self.lag.is_some_and(|lag| lag.records > lag.undecided)
    }
}

/// Another producer's transaction that is open for this long holds the figures up.
const UNDECIDED_LIMIT: Duration = Duration::from_secs(10);

/// One worker's health.
#[derive(Debug)]
pub(super) struct WorkerHealth {
    joined: bool,
    /// Why its calls of Kafka come to nothing, as it last said.
    away: Option<String>,
    /// When the loop last went round; before the first time, when the worker was made.
    polled_at: Duration,
    partitions: BTreeMap<Partition, PartitionHealth>,
    /// By name; none before the worker has its clients.
    pub queues: Vec<(&'static str, QueuedBytes)>,
}

#[derive(Debug)]
struct PartitionHealth {
    state: TaskState,
    /// Changelog records left to restore; `None` while unknown, and once the task runs.
    left: Option<u64>,
    /// `None` while unknown.
    lag: Option<Lag>,
    position: Option<Offset>,
    /// Since when it stands before another producer's open transaction.
    undecided_since: Option<Duration>,
    /// When it last moved, or last had a reason not to.
    unmoved_since: Duration,
}

impl WorkerHealth {
    /// A worker made at `now` that has neither joined nor connected.
    pub fn new(now: Duration) -> Self {
        let away = Some("no broker has answered yet".to_owned());
        Self { joined: false, away, polled_at: now, partitions: BTreeMap::new(), queues: Vec::new() }
    }

    /// Why Kafka does not answer this worker at `now`; `None` while it does.
    pub fn away(&self, now: Duration) -> Option<String> {
        let gap = self.poll_gap(now);
        if gap >= ANSWER_LIMIT {
            return Some(format!("a Kafka call has not answered for {} s", gap.as_secs()));
        }
        self.away.as_ref().map(|why| format!("Kafka does not answer: {why}"))
    }

    /// Whether the group has said what this worker owns, be it nothing.
    pub fn has_joined(&self) -> bool {
        self.joined
    }

    pub fn owns(&self, partition: Partition) -> bool {
        self.partitions.contains_key(&partition)
    }

    /// The partitions in this state, in order.
    pub fn partitions_in(&self, state: TaskState) -> impl Iterator<Item = Partition> {
        self.partitions.iter().filter(move |(_, partition)| partition.state == state).map(|(id, _)| *id)
    }

    /// The partitions being restored, in order, with the changelog records left to read.
    pub fn restores(&self) -> impl Iterator<Item = (Partition, Option<u64>)> {
        let restoring = self.partitions.iter().filter(|(_, partition)| partition.state == TaskState::Restoring);
        restoring.map(|(id, partition)| (*id, partition.left))
    }

    pub fn polled(&mut self, at: Duration) {
        self.polled_at = self.polled_at.max(at);
    }

    pub fn told_away(&mut self, why: Option<&str>) {
        if why.is_none() && self.away.is_some() {
            // Nobody could move while the broker was away.
            for partition in self.partitions.values_mut() {
                partition.unmoved_since = self.polled_at;
            }
        }
        self.away = why.map(str::to_owned);
    }

    pub fn told_joined(&mut self, joined: bool) {
        self.joined = joined;
    }

    /// Takes a task's new state and returns the one before; `None` for a partition not owned until now.
    pub fn task(&mut self, partition: Partition, state: TaskState) -> Option<TaskState> {
        match state {
            TaskState::Closed => self.partitions.remove(&partition).map(|gone| gone.state),
            TaskState::Restoring | TaskState::Running => {
                // Whoever has a task has been assigned a partition.
                self.joined = true;
                let unmoved_since = self.polled_at;
                match self.partitions.get_mut(&partition) {
                    Some(owned) if owned.state == state => Some(state),
                    Some(owned) => {
                        owned.unmoved_since = unmoved_since;
                        (owned.left, owned.lag, owned.undecided_since) = (None, None, None);
                        Some(std::mem::replace(&mut owned.state, state))
                    }
                    None => {
                        let owned = PartitionHealth {
                            state,
                            left: None,
                            lag: None,
                            position: None,
                            undecided_since: None,
                            unmoved_since,
                        };
                        self.partitions.insert(partition, owned);
                        None
                    }
                }
            }
        }
    }

    pub fn restoring(&mut self, partition: Partition, left: Option<u64>) {
        if let Some(owned) = self.partitions.get_mut(&partition) {
            owned.left = left;
        }
    }

    pub fn lag(&mut self, partition: Partition, lag: Lag) {
        if let Some(owned) = self.partitions.get_mut(&partition) {
            if !owned.is_behind() {
                owned.unmoved_since = self.polled_at;
            }
            let since = owned.undecided_since.unwrap_or(self.polled_at);
            owned.undecided_since = (lag.undecided > 0).then_some(since);
            owned.lag = Some(lag);
        }
    }

    /// The lags of its partitions as far as they are known at `now`: none while Kafka does not answer.
    pub fn lags(&self, now: Duration) -> Vec<(Partition, Lag)> {
        if self.away(now).is_some() {
            return Vec::new();
        }
        self.partitions.iter().filter_map(|(id, partition)| Some((*id, partition.lag?))).collect()
    }

    pub fn progressed(&mut self, partition: Partition, position: Offset) {
        if let Some(owned) = self.partitions.get_mut(&partition)
            && owned.position != Some(position)
        {
            owned.position = Some(position);
            owned.unmoved_since = self.polled_at;
            // Some transaction was decided: an open one is another.
            owned.undecided_since = owned.undecided_since.map(|_| self.polled_at);
        }
    }

    /// The partitions that have stood before another producer's open transaction for a while, and for how long.
    pub fn undecided(&self, now: Duration) -> impl Iterator<Item = (Partition, Duration)> {
        let waits = move |partition: &PartitionHealth| Some(now.saturating_sub(partition.undecided_since?));
        let waiting = self.partitions.iter().filter_map(move |(id, partition)| Some((*id, waits(partition)?)));
        waiting.filter(|(_, time)| *time >= UNDECIDED_LIMIT)
    }

    /// How long ago the loop last went round.
    pub fn poll_gap(&self, now: Duration) -> Duration {
        now.saturating_sub(self.polled_at)
    }

    /// The running partitions, and how long each has not moved although it has records left and the broker answers.
    pub fn stalls(&self, now: Duration) -> impl Iterator<Item = (Partition, Duration)> {
        let running = self.partitions.iter().filter(|(_, partition)| partition.state == TaskState::Running);
        running.map(move |(id, partition)| {
            let may_move = self.away.is_none() && partition.is_behind();
            (*id, if may_move { now.saturating_sub(partition.unmoved_since) } else { Duration::ZERO })
        })
    }

    /// What speaks against this worker being alive at `now`; nothing when it is.
    pub fn faults(&self, now: Duration) -> Vec<String> {
        let mut faults = Vec::new();
        let silent = self.poll_gap(now);
        if silent >= POLL_LIMIT {
            faults.push(format!("not polled for {} s", silent.as_secs()));
        }
        let stuck = self.stalls(now).filter(|(_, unmoved)| *unmoved >= PROGRESS_LIMIT);
        faults.extend(stuck.map(|(id, unmoved)| {
            let records = self.partitions[&id].lag.map_or(0, |lag| lag.records);
            format!("partition {id} has not moved for {} s, {records} records from its end", unmoved.as_secs())
        }));
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Partition = Partition(3);
    const NONE: [&str; 0] = [];

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn behind_by(records: i64) -> Lag {
        Lag { records, undecided: 0, seconds: 0.0 }
    }

    /// A connected worker that runs one partition with records left, at 100 s.
    fn behind() -> WorkerHealth {
        let mut worker = WorkerHealth::new(s(100));
        worker.told_away(None);
        worker.task(P, TaskState::Running);
        worker.lag(P, behind_by(17));
        worker.progressed(P, Offset(5));
        worker
    }

    #[test]
    fn a_loop_that_stands_still_for_120_s_hangs() {
        let mut worker = WorkerHealth::new(s(100));
        assert_eq!(worker.faults(s(219)), NONE);
        assert_eq!(worker.faults(s(220)), ["not polled for 120 s"]);
        worker.polled(s(130));
        assert_eq!(worker.faults(s(249)), NONE);
        assert_eq!(worker.faults(s(250)), ["not polled for 120 s"]);
    }

    #[test]
    fn a_probe_older_than_the_last_poll_finds_no_fault() {
        let mut worker = behind();
        worker.polled(s(500));
        worker.progressed(P, Offset(6));
        assert_eq!(worker.faults(s(400)), NONE);
    }

    #[test]
    fn a_partition_with_records_left_must_move_within_120_s() {
        let mut worker = behind();
        worker.polled(s(219));
        worker.lag(P, behind_by(18));
        worker.progressed(P, Offset(5));
        assert_eq!(worker.faults(s(219)), NONE);
        worker.polled(s(220));
        assert_eq!(worker.faults(s(220)), ["partition 3 has not moved for 120 s, 18 records from its end"]);
        worker.progressed(P, Offset(6));
        assert_eq!(worker.faults(s(220)), NONE);
    }

    #[test]
    fn a_partition_at_its_end_may_rest_and_then_has_its_whole_time() {
        let mut worker = behind();
        for lag in [0, -1001] {
            worker.polled(s(110));
            worker.lag(P, behind_by(lag));
            worker.polled(s(1000));
            assert_eq!(worker.faults(s(1000)), NONE, "lag {lag}");
        }
        worker.lag(P, behind_by(1));
        worker.polled(s(1119));
        assert_eq!(worker.faults(s(1119)), NONE);
        worker.polled(s(1120));
        assert_eq!(worker.faults(s(1120)).len(), 1);
    }

    #[test]
    fn a_broker_that_is_away_excuses_the_partitions_and_a_return_gives_them_time() {
        let mut worker = behind();
        worker.told_away(Some("no connection"));
        worker.polled(s(1000));
        assert_eq!(worker.faults(s(1000)), NONE);
        worker.told_away(None);
        worker.polled(s(1119));
        assert_eq!(worker.faults(s(1119)), NONE);
        worker.polled(s(1120));
        assert_eq!(worker.faults(s(1120)).len(), 1);
    }

    #[test]
    fn a_loop_that_stands_still_for_5_s_is_in_a_call_that_is_not_answered_whatever_it_said_before() {
        let mut worker = behind();
        assert_eq!(worker.away(s(104)), None);
        assert_eq!(worker.lags(s(104)), [(P, behind_by(17))]);
        assert_eq!(worker.away(s(107)).as_deref(), Some("a Kafka call has not answered for 7 s"));
        assert_eq!(worker.lags(s(107)), []);
        worker.polled(s(108));
        assert_eq!(worker.away(s(108)), None);
        worker.told_away(Some("not delivered"));
        assert_eq!(worker.away(s(108)).as_deref(), Some("Kafka does not answer: not delivered"));
        assert_eq!(worker.lags(s(108)), []);
    }

    #[test]
    fn a_partition_before_another_producers_open_transaction_is_named_after_10_s_and_is_not_stuck() {
        let mut worker = behind();
        for second in 100..1000 {
            worker.polled(s(second));
            worker.lag(P, Lag { records: 3, undecided: 3, seconds: 1.0 });
            assert_eq!(worker.faults(s(second)), NONE);
        }
        assert_eq!(worker.undecided(s(1000)).collect::<Vec<_>>(), [(P, s(900))]);
        worker.progressed(P, Offset(6));
        assert_eq!(worker.undecided(s(1000)).count(), 0, "it is another one now");
        assert_eq!(worker.undecided(s(1010)).count(), 1);
        worker.lag(P, behind_by(0));
        assert_eq!(worker.undecided(s(2000)).count(), 0);
    }

    #[test]
    fn a_restoring_partition_is_not_asked_to_move() {
        let mut worker = behind();
        worker.task(P, TaskState::Restoring);
        worker.polled(s(1000));
        assert_eq!(worker.faults(s(1000)), NONE);
        worker.task(P, TaskState::Running);
        assert_eq!(worker.faults(s(1029)), NONE);
    }

    #[test]
    fn a_closed_partition_is_forgotten() {
        let mut worker = behind();
        assert_eq!(worker.task(P, TaskState::Closed), Some(TaskState::Running));
        worker.lag(P, behind_by(17));
        worker.progressed(P, Offset(9));
        worker.polled(s(1000));
        assert_eq!(worker.faults(s(1000)), NONE);
        assert!(!worker.owns(P));
        assert_eq!(worker.task(P, TaskState::Closed), None);
    }
}
