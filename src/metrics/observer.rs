//! The worker's watcher: turns what a worker reports into metrics and health.
//!
//! Records, events and sessions are counted from commits alone, so what an aborted transaction held is never counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::health::{self, Health};
use super::not_read;
use super::registry::Metrics;
use super::worker_health::WorkerHealth;
use crate::ids::{Offset, Partition};
use crate::task::{Counts, StateSize};
use crate::worker::{Committed, Lag, Observer, QueuedBytes, Step, TaskState};

/// One worker's observer.
///
/// Partition series exist for partitions whose [`TaskState`] was reported, until it is `Closed`.
#[derive(Debug)]
pub struct WorkerObserver {
    metrics: Metrics,
    health: Health,
    own: Arc<Mutex<WorkerHealth>>,
    /// Changelog records already counted, by partition being restored.
    restored: BTreeMap<Partition, u64>,
}

impl WorkerObserver {
    /// Adds a worker to `health`, made at the monotonic time `now`.
    ///
    /// To be called for every worker before probes are answered: a worker that is not known yet holds nothing back.
    #[must_use]
    pub fn new(metrics: &Metrics, health: &Health, now: Duration) -> Self {
        let own = health.add_worker(now);
        Self { metrics: metrics.clone(), health: health.clone(), own, restored: BTreeMap::new() }
    }

    /// Looks at these queues of the worker's clients from now on.
    pub fn watch_queues(&self, fetch: QueuedBytes, produce: QueuedBytes) {
        health::lock(&self.own).queues = vec![("fetch", fetch), ("produce", produce)];
    }

    fn count(&self, counts: &Counts) {
        let catalog = self.metrics.catalog();
        catalog.records.inc_by(counts.records);
        catalog.record_bytes.inc_by(counts.bytes);
        catalog.tombstones.inc_by(counts.tombstones);
        catalog.timestamps_ahead.inc_by(counts.timestamps_ahead);
        for ((class, outcome), n) in &counts.events {
            catalog.events.with_label_values(&[class.as_str(), outcome.as_str()]).inc_by(*n);
        }
        for (reason, n) in &counts.dead_letters {
            catalog.dead_letters.with_label_values(&[reason.as_str()]).inc_by(*n);
        }
        not_read::warn_of(counts);
        catalog.sessions_opened.inc_by(counts.sessions_opened);
        for (reason, n) in &counts.sessions_finished {
            catalog.sessions_finished.with_label_values(&[reason.as_str()]).inc_by(*n);
        }
        catalog.bundles_truncated.inc_by(counts.truncated);
        catalog.markers_evicted.inc_by(counts.markers_evicted);
        catalog.unreadable_values.inc_by(counts.unreadable_values);
    }

    fn count_restored(&mut self, partition: Partition, restored: u64) {
        let counted = self.restored.entry(partition).or_default();
        self.metrics.catalog().restored_snapshots.inc_by(restored.saturating_sub(*counted));
        *counted = restored.max(*counted);
    }

    fn count_states(&self, before: Option<TaskState>, after: TaskState) {
        let catalog = self.metrics.catalog();
        let gauge = |state| match state {
            TaskState::Restoring => Some(&catalog.partitions_restoring),
            TaskState::Running => Some(&catalog.partitions_running),
            // It is no longer this worker's.
            TaskState::Closed => None,
        };
        if let Some(left) = before.and_then(gauge) {
            left.dec();
        }
        // A partition that was never owned may be closed: nothing was counted, nothing is.
        if let Some(entered) = gauge(after) {
            entered.inc();
        }
    }

    fn tell_state(&self, partition: Partition, state: StateSize) {
        if self.owns(partition) {
            let (catalog, label) = (self.metrics.catalog(), [partition.to_string()]);
            let [open, bytes] = [state.open_sessions, state.bytes].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
            catalog.sessions_open.with_label_values(&label).set(open);
            catalog.state_bytes.with_label_values(&label).set(bytes);
        }
    }

    /// Unknown, or nothing to restore any more: no sample, no series.
    fn tell_left(&self, partition: Partition, left: Option<u64>) {
        let gauge = &self.metrics.catalog().restore_records_left;
        let label = [partition.to_string()];
        match left {
            Some(left) => gauge.with_label_values(&label).set(i64::try_from(left).unwrap_or(i64::MAX)),
            None => drop(gauge.remove_label_values(&label)),
        }
    }

    fn remove_series(&self, partition: Partition) {
        // A partition lost by one worker may run at another of this process already.
        if self.health.owns(partition) {
            return;
        }
        let catalog = self.metrics.catalog();
        let label = partition.to_string();
        // An error says that there was no series.
        let _ = catalog.sessions_open.remove_label_values(&[&label]);
        let _ = catalog.state_bytes.remove_label_values(&[&label]);
        let _ = catalog.restore_records_left.remove_label_values(&[&label]);
    }

    fn owns(&self, partition: Partition) -> bool {
        health::lock(&self.own).owns(partition)
    }
}

impl Observer for WorkerObserver {
    fn committed(&mut self, commit: &Committed<'_>) {
        self.count(commit.counts);
        self.metrics.recent().add(commit.counts, commit.at);
        let catalog = self.metrics.catalog();
        commit.finished.iter().for_each(|session| catalog.sessions.count(session, commit.at));
        catalog.commits.inc();
        catalog.commit_duration.observe(commit.took.as_secs_f64());
        catalog.bundles.inc_by(commit.bundles as u64);
        catalog.changelog_records.inc_by(commit.changelog_records as u64);
        catalog.changelog_bytes.inc_by(commit.changelog_bytes as u64);
        for (partition, state) in commit.state {
            self.tell_state(*partition, *state);
        }
    }

    fn refused_for_size(&mut self) {
        self.metrics.catalog().refused_for_size.inc();
    }

    fn aborted(&mut self, at: Step) {
        self.metrics.catalog().aborts.with_label_values(&[at.as_str()]).inc();
    }

    fn joined(&mut self, joined: bool) {
        health::lock(&self.own).told_joined(joined);
    }

    fn task(&mut self, partition: Partition, state: TaskState, restored: u64) {
        self.count_restored(partition, restored);
        let before = health::lock(&self.own).task(partition, state);
        self.count_states(before, state);
        if state == TaskState::Running {
            self.tell_left(partition, None);
        }
        if state == TaskState::Closed {
            self.restored.remove(&partition);
            self.remove_series(partition);
        }
    }

    fn restoring(&mut self, partition: Partition, left: Option<u64>) {
        if self.owns(partition) {
            health::lock(&self.own).restoring(partition, left);
            self.tell_left(partition, left);
        }
    }

    fn restored(&mut self, partition: Partition, state: StateSize) {
        self.tell_state(partition, state);
    }

    fn lag(&mut self, partition: Partition, lag: Lag) {
        health::lock(&self.own).lag(partition, lag);
    }

    fn polled(&mut self, at: Duration) {
        health::lock(&self.own).polled(at);
    }

    fn away(&mut self, why: Option<&str>) {
        health::lock(&self.own).told_away(why);
    }

    fn progressed(&mut self, partition: Partition, position: Offset) {
        health::lock(&self.own).progressed(partition, position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::SessionMeasures;
    use crate::collector::EndReason;
    use crate::task::{FinishedSession, Outcome};
    use crate::time::Timestamp;
    use crate::wire::{DeadLetterReason, EventClass};

    const P0: Partition = Partition(0);
    const P1: Partition = Partition(1);

    struct Process {
        metrics: Metrics,
        health: Health,
    }

    impl Process {
        fn new() -> Self {
            Self { metrics: Metrics::new(Timestamp(0)), health: Health::new() }
        }

        fn worker(&self) -> WorkerObserver {
            let mut worker = WorkerObserver::new(&self.metrics, &self.health, Duration::ZERO);
            worker.away(None);
            worker
        }

        /// The series whose line begins so.
        fn series(&self, prefix: &str) -> Vec<String> {
            self.metrics.set_health(&self.health, Duration::ZERO);
            self.metrics.encode().lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect()
        }
    }

    fn counts() -> Counts {
        Counts {
            records: 9,
            bytes: 900,
            tombstones: 1,
            timestamps_ahead: 6,
            events: [((EventClass::Audio, Outcome::Accepted), 5), ((EventClass::Text, Outcome::Late), 2)].into(),
            dead_letters: [(DeadLetterReason::TooDeep, 1)].into(),
            sessions_opened: 3,
            sessions_finished: [(EndReason::Closed, 2)].into(),
            clock_faults: [].into(),
            truncated: 1,
            markers_evicted: 5,
            unreadable_values: 4,
        }
    }

    fn state(open_sessions: usize) -> StateSize {
        StateSize { open_sessions, bytes: open_sessions * 1000 }
    }

    fn commit<'a>(counts: &'a Counts, state: &'a [(Partition, StateSize)]) -> Committed<'a> {
        Committed {
            counts,
            finished: &[],
            at: Timestamp(10_000),
            bundles: 2,
            changelog_records: 6,
            changelog_bytes: 600,
            took: Duration::from_millis(20),
            state,
        }
    }

    #[test]
    fn an_observer_moves_to_its_worker_s_thread() {
        let mut worker = Process::new().worker();
        std::thread::spawn(move || worker.polled(Duration::ZERO)).join().unwrap();
    }

    #[test]
    fn counters_move_with_the_commit_and_not_before() {
        let process = Process::new();
        let mut worker = process.worker();
        worker.task(P0, TaskState::Running, 0);
        worker.progressed(P0, Offset(9));
        worker.aborted(Step::Offsets);
        assert_eq!(process.series("duplex_records_total"), ["duplex_records_total 0"]);
        assert_eq!(
            process.series("duplex_aborts_total"),
            [
                "duplex_aborts_total{step=\"begin\"} 0",
                "duplex_aborts_total{step=\"commit\"} 0",
                "duplex_aborts_total{step=\"group\"} 0",
                "duplex_aborts_total{step=\"offsets\"} 1",
                "duplex_aborts_total{step=\"send\"} 0",
            ]
        );
        let finished = FinishedSession { ended_at: Timestamp(7_000), measures: SessionMeasures::default() };

        worker.committed(&Committed { finished: &[&finished], ..commit(&counts(), &[(P0, state(1))]) });
        for line in [
            "duplex_records_total 9",
            "duplex_record_bytes_total 900",
            "duplex_tombstones_total 1",
            "duplex_timestamps_ahead_total 6",
            "duplex_events_total{class=\"audio\",outcome=\"accepted\"} 5",
            "duplex_events_total{class=\"text\",outcome=\"late\"} 2",
            "duplex_events_total{class=\"text\",outcome=\"accepted\"} 0",
            "duplex_dead_letters_total{reason=\"too_deep\"} 1",
            "duplex_sessions_opened_total 3",
            "duplex_sessions_finished_total{end_reason=\"closed\"} 2",
            "duplex_bundles_total 2",
            "duplex_bundles_truncated_total 1",
            "duplex_markers_evicted_total 5",
            "duplex_unreadable_values_total 4",
            "duplex_commits_total 1",
            "duplex_changelog_records_total 6",
            "duplex_changelog_bytes_total 600",
            "duplex_sessions_open{partition=\"0\"} 1",
            "duplex_state_bytes{partition=\"0\"} 1000",
            "duplex_sessions_without_audio_total 1",
            "duplex_bundle_latency_seconds_sum 3",
            "duplex_commit_duration_seconds_bucket{le=\"0.01\"} 0",
            "duplex_commit_duration_seconds_bucket{le=\"0.025\"} 1",
        ] {
            assert_eq!(process.series(line), [line]);
        }
    }

    #[test]
    fn a_partition_that_leaves_takes_its_series_along() {
        let process = Process::new();
        let mut worker = process.worker();
        for partition in [P0, P1] {
            worker.task(partition, TaskState::Running, 0);
            worker.lag(partition, Lag { records: 7, undecided: 0, seconds: 1.5 });
        }
        worker.committed(&commit(&counts(), &[(P0, state(1)), (P1, state(2))]));
        worker.task(P0, TaskState::Closed, 0);
        // What still arrives for a closed task has no effect.
        worker.committed(&commit(&counts(), &[(P0, state(1))]));
        worker.lag(P0, Lag { records: 7, undecided: 0, seconds: 1.5 });
        assert_eq!(process.series("duplex_sessions_open{"), ["duplex_sessions_open{partition=\"1\"} 2"]);
        assert_eq!(
            process.series("duplex_partition_lag_"),
            ["duplex_partition_lag_records{partition=\"1\"} 7", "duplex_partition_lag_seconds{partition=\"1\"} 1.5"]
        );
    }

    #[test]
    fn a_partition_that_another_worker_took_keeps_its_series() {
        let process = Process::new();
        let (mut loser, mut taker) = (process.worker(), process.worker());
        loser.task(P0, TaskState::Running, 0);
        taker.task(P0, TaskState::Running, 0);
        taker.lag(P0, Lag { records: 3, undecided: 0, seconds: 0.5 });
        loser.task(P0, TaskState::Closed, 0);
        assert_eq!(process.series("duplex_partition_lag_records").len(), 1);
        assert_eq!(process.series("duplex_partitions{state=\"running\"}"), ["duplex_partitions{state=\"running\"} 1"]);
    }

    #[test]
    fn a_lag_has_no_series_while_kafka_does_not_answer_or_the_worker_hangs() {
        let process = Process::new();
        let mut worker = process.worker();
        worker.task(P0, TaskState::Running, 0);
        worker.lag(P0, Lag { records: 3, undecided: 0, seconds: 1.5 });
        assert_eq!(process.series("duplex_partition_lag_").len(), 2);
        worker.away(Some("no connection"));
        assert_eq!(process.series("duplex_partition_lag_"), [""; 0]);
        worker.away(None);
        assert_eq!(process.series("duplex_partition_lag_").len(), 2);
        process.metrics.set_health(&process.health, Duration::from_secs(6));
        let text = process.metrics.encode();
        assert!(!text.contains("duplex_partition_lag_records{"), "{text}");
        assert!(text.contains("\nduplex_broker_connected 0\n"), "{text}");
    }

    #[test]
    fn partitions_are_counted_by_state() {
        let process = Process::new();
        let states = || process.series("duplex_partitions{");
        let expect = |restoring: i64, running: i64| {
            [
                format!("duplex_partitions{{state=\"restoring\"}} {restoring}"),
                format!("duplex_partitions{{state=\"running\"}} {running}"),
            ]
        };
        let mut worker = process.worker();
        assert_eq!(states(), expect(0, 0));
        worker.task(P0, TaskState::Restoring, 0);
        worker.task(P0, TaskState::Restoring, 10);
        worker.task(P1, TaskState::Running, 0);
        assert_eq!(states(), expect(1, 1));
        worker.task(P0, TaskState::Running, 12);
        assert_eq!(states(), expect(0, 2));
        worker.task(P0, TaskState::Closed, 12);
        worker.task(P0, TaskState::Closed, 12);
        assert_eq!(states(), expect(0, 1));
    }

    #[test]
    fn restored_records_are_counted_once_for_each_restore() {
        let process = Process::new();
        let mut worker = process.worker();
        for (state, restored) in
            [(TaskState::Restoring, 0), (TaskState::Restoring, 10), (TaskState::Running, 12), (TaskState::Closed, 12)]
        {
            worker.task(P0, state, restored);
        }
        assert_eq!(process.series("duplex_restored"), ["duplex_restored_snapshots_total 12"]);
        worker.task(P0, TaskState::Restoring, 5);
        assert_eq!(process.series("duplex_restored"), ["duplex_restored_snapshots_total 17"]);
    }

    #[test]
    fn sessions_that_were_restored_are_open_before_the_first_commit() {
        let process = Process::new();
        let mut worker = process.worker();
        worker.task(P0, TaskState::Running, 7);
        worker.restored(P0, state(30));
        assert_eq!(process.series("duplex_sessions_open{"), ["duplex_sessions_open{partition=\"0\"} 30"]);
        worker.task(P0, TaskState::Closed, 0);
        assert_eq!(process.series("duplex_sessions_open{"), [""; 0]);
    }

    #[test]
    fn what_is_left_of_a_restore_is_shown_until_the_task_runs_or_leaves() {
        let process = Process::new();
        let mut worker = process.worker();
        let left = || process.series("duplex_restore_records_left");
        worker.restoring(P0, Some(9));
        assert_eq!(left(), [""; 0], "nobody owns it yet");
        for partition in [P0, P1] {
            worker.task(partition, TaskState::Restoring, 0);
            worker.restoring(partition, Some(12_345));
        }
        worker.restoring(P0, Some(7));
        let shown = |partition, n| format!("duplex_restore_records_left{{partition=\"{partition}\"}} {n}");
        assert_eq!(left(), [shown(0, 7), shown(1, 12_345)]);
        worker.restoring(P1, None);
        assert_eq!(left(), [shown(0, 7)]);
        worker.restoring(P1, Some(3));
        worker.task(P0, TaskState::Running, 7);
        assert_eq!(left(), [shown(1, 3)]);
        worker.task(P1, TaskState::Closed, 0);
        assert_eq!(left(), [""; 0]);
    }

    #[test]
    fn the_broker_is_connected_when_every_worker_says_so() {
        let process = Process::new();
        let (mut first, mut second) = (process.worker(), process.worker());
        let connected = || process.series("duplex_broker_connected");
        first.away(Some("no connection"));
        second.away(Some("no connection"));
        assert_eq!(connected(), ["duplex_broker_connected 0"]);
        first.away(None);
        assert_eq!(connected(), ["duplex_broker_connected 0"]);
        second.away(None);
        assert_eq!(connected(), ["duplex_broker_connected 1"]);
        first.away(Some("no connection"));
        assert_eq!(connected(), ["duplex_broker_connected 0"]);
    }

    #[test]
    fn the_queues_of_each_worker_are_looked_at_when_asked_for() {
        let process = Process::new();
        let (_first, second) = (process.worker(), process.worker());
        let (fetch, produce) = (QueuedBytes::default(), QueuedBytes::default());
        second.watch_queues(fetch.clone(), produce.clone());
        fetch.set(7);
        produce.add(40);
        produce.remove(10);
        process.metrics.set_health(&process.health, Duration::ZERO);
        let series = |queue, bytes| format!("duplex_queue_bytes{{queue=\"{queue}\",worker=\"1\"}} {bytes}");
        assert_eq!(process.series("duplex_queue_bytes{"), [series("fetch", 7), series("produce", 30)]);
    }

    #[test]
    fn what_a_worker_reports_reaches_the_probes() {
        let process = Process::new();
        let mut worker = process.worker();
        worker.away(None);
        worker.joined(true);
        assert!(process.health.readiness(Duration::ZERO).passes);
        worker.polled(Duration::from_secs(60));
        assert!(process.health.liveness(Duration::from_secs(60)).passes);
        worker.task(P0, TaskState::Running, 0);
        worker.lag(P0, Lag { records: 1, undecided: 0, seconds: 1.0 });
        worker.polled(Duration::from_secs(180));
        assert!(!process.health.liveness(Duration::from_secs(180)).passes);
        worker.progressed(P0, Offset(1));
        assert!(process.health.liveness(Duration::from_secs(180)).passes);
    }
}
