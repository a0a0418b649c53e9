//! The answers to the probes of a supervisor: ready, and alive.
//!
//! Knows every worker's health; time is an argument. Not ready means "send me nobody yet", not alive means "restart
//! me": a broker that is away makes the process not ready, and never not alive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;

use super::worker_health::WorkerHealth;
use crate::ids::Partition;
use crate::worker::{Lag, QueuedBytes, TaskState};

/// The health of the process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    workers: RwLock<Vec<Arc<Mutex<WorkerHealth>>>>,
    awaits_run_view: AtomicBool,
    /// Why the workers can't begin.
    hindrance: Mutex<Option<String>>,
    is_draining: AtomicBool,
}

/// A probe's answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Probe {
    pub passes: bool,
    /// What stands, or what speaks against it; one thing a line.
    pub lines: Vec<String>,
}

impl Health {
    /// The health of a process without workers; each [`super::WorkerObserver`] adds its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes readiness wait until [`Self::run_view_caught_up`].
    pub fn await_run_view(&self) {
        self.0.awaits_run_view.store(true, Ordering::Relaxed);
    }

    /// The run view has read its topic to the end once; what it falls behind later doesn't count.
    pub fn run_view_caught_up(&self) {
        self.0.awaits_run_view.store(false, Ordering::Relaxed);
    }

    /// Before the workers begin: why they can't, as far as is known.
    pub fn hindered_by(&self, why: Option<String>) {
        *self.0.hindrance.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// The process is about to end: not ready any more.
    pub fn drain(&self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
    }

    /// Whether every worker has joined its group, runs what it owns, and reaches the broker; `now` is of the workers'
    /// monotonic clock.
    #[must_use]
    pub fn readiness(&self, now: Duration) -> Probe {
        let workers = self.workers();
        let mut against = Vec::new();
        let mut stands = vec!["ready".to_owned()];
        let (mut restoring, mut undecided) = (Vec::new(), Vec::new());
        if self.0.is_draining.load(Ordering::Relaxed) {
            against.push("draining".to_owned());
        }
        if let Some(why) = &*self.0.hindrance.lock().unwrap_or_else(PoisonError::into_inner) {
            // Nothing else that is not so yet has another cause.
            against.push(why.clone());
            return Probe { passes: false, lines: against };
        }
        if workers.is_empty() {
            against.push("no worker has started".to_owned());
        }
        for (number, worker) in workers.iter().enumerate() {
            let worker = lock(worker);
            if let Some(why) = worker.away(now) {
                against.push(format!("worker {number}: {why}"));
            }
            if !worker.has_joined() {
                against.push(format!("worker {number}: no assignment yet"));
            }
            restoring.extend(worker.restores());
            undecided.extend(worker.undecided(now));
            let running: Vec<_> = worker.partitions_in(TaskState::Running).collect();
            stands.push(match running.is_empty() {
                // The group has more members than partitions: this one takes over when another leaves.
                true => format!("worker {number}: standby, no partitions"),
                false => format!("worker {number}: running {}", list(&running)),
            });
        }
        restoring.sort_unstable();
        against.extend(restoring.into_iter().map(|(partition, left)| match left {
            Some(left) => format!("partition {partition} restoring, {left} records left"),
            None => format!("partition {partition} restoring"),
        }));
        against.extend(undecided.into_iter().map(|(partition, time)| {
            let seconds = time.as_secs();
            format!(
                "partition {partition} waits for an open transaction of another producer, for {seconds} s: see \
                 kafka-transactions.sh find-hanging"
            )
        }));
        if self.0.awaits_run_view.load(Ordering::Relaxed) {
            against.push("the run view has not caught up with the bundles topic".to_owned());
        }
        Probe { passes: against.is_empty(), lines: if against.is_empty() { stands } else { against } }
    }

    /// Whether every worker's loop goes round and its partitions move; `now` is of the workers' monotonic clock.
    #[must_use]
    pub fn liveness(&self, now: Duration) -> Probe {
        let mut against = Vec::new();
        for (number, worker) in self.workers().iter().enumerate() {
            against.extend(lock(worker).faults(now).into_iter().map(|fault| format!("worker {number}: {fault}")));
        }
        let passes = against.is_empty();
        Probe { passes, lines: if passes { vec!["alive".to_owned()] } else { against } }
    }

    /// How long each worker's loop has not gone round.
    pub(super) fn poll_gaps(&self, now: Duration) -> Vec<Duration> {
        self.workers().iter().map(|worker| lock(worker).poll_gap(now)).collect()
    }

    /// The queues of each worker.
    pub(super) fn queues(&self) -> Vec<Vec<(&'static str, QueuedBytes)>> {
        self.workers().iter().map(|worker| lock(worker).queues.clone()).collect()
    }

    /// How long each running partition has not moved although it could.
    pub(super) fn stalls(&self, now: Duration) -> Vec<(Partition, Duration)> {
        self.workers().iter().flat_map(|worker| lock(worker).stalls(now).collect::<Vec<_>>()).collect()
    }

    /// Adds a worker made at `now`.
    pub(super) fn add_worker(&self, now: Duration) -> Arc<Mutex<WorkerHealth>> {
        let worker = Arc::new(Mutex::new(WorkerHealth::new(now)));
        self.0.workers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&worker));
        worker
    }

    /// Whether Kafka answers every worker at `now`.
    pub(super) fn is_connected(&self, now: Duration) -> bool {
        let workers = self.workers();
        !workers.is_empty() && workers.iter().all(|worker| lock(worker).away(now).is_none())
    }

    /// The lag of each partition, as far as it is known at `now`.
    pub(super) fn lags(&self, now: Duration) -> Vec<(Partition, Lag)> {
        self.workers().iter().flat_map(|worker| lock(worker).lags(now)).collect()
    }

    /// Whether any worker of the process owns the partition.
    pub(super) fn owns(&self, partition: Partition) -> bool {
        self.workers().iter().any(|worker| lock(worker).owns(partition))
    }

    fn workers(&self) -> Vec<Arc<Mutex<WorkerHealth>>> {
        self.0.workers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Locks a worker's health. One that panicked while it held the lock left plain values behind.
pub(super) fn lock(worker: &Mutex<WorkerHealth>) -> MutexGuard<'_, WorkerHealth> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `2 partitions: 0, 3`
fn list(partitions: &[Partition]) -> String {
    let names: Vec<_> = partitions.iter().map(ToString::to_string).collect();
    let noun = if names.len() == 1 { "partition" } else { "partitions" };
    format!("{} {noun}: {}", names.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn fails(lines: &[&str]) -> Probe {
        Probe { passes: false, lines: lines.iter().map(ToString::to_string).collect() }
    }

    fn passes(lines: &[&str]) -> Probe {
        Probe { passes: true, ..fails(lines) }
    }

    #[test]
    fn a_process_without_workers_is_not_ready() {
        assert_eq!(Health::new().readiness(START), fails(&["no worker has started"]));
    }

    #[test]
    fn what_keeps_the_workers_from_their_beginning_is_the_only_reason() {
        let health = Health::new();
        health.await_run_view();
        let worker = health.add_worker(START);
        health.hindered_by(Some("no way into kafka".into()));
        assert_eq!(health.readiness(START), fails(&["no way into kafka"]));
        health.drain();
        assert_eq!(health.readiness(START), fails(&["draining", "no way into kafka"]));
        health.hindered_by(None);
        lock(&worker).told_away(None);
        assert!(!health.readiness(START).lines.contains(&"no way into kafka".to_owned()));
    }

    #[test]
    fn a_worker_is_ready_once_connected_assigned_and_restored() {
        let health = Health::new();
        let worker = health.add_worker(START);
        let neither = ["worker 0: Kafka does not answer: no broker has answered yet", "worker 0: no assignment yet"];
        assert_eq!(health.readiness(START), fails(&neither));
        lock(&worker).told_away(None);
        assert_eq!(health.readiness(START), fails(&neither[1..]));
        lock(&worker).task(Partition(3), TaskState::Restoring);
        lock(&worker).task(Partition(0), TaskState::Restoring);
        lock(&worker).task(Partition(1), TaskState::Running);
        assert_eq!(health.readiness(START), fails(&["partition 0 restoring", "partition 3 restoring"]));
        lock(&worker).restoring(Partition(3), Some(12_345));
        lock(&worker).task(Partition(0), TaskState::Running);
        assert_eq!(health.readiness(START), fails(&["partition 3 restoring, 12345 records left"]));
        lock(&worker).task(Partition(3), TaskState::Running);
        assert_eq!(health.readiness(START), passes(&["ready", "worker 0: running 3 partitions: 0, 1, 3"]));
        lock(&worker).told_away(Some("no connection"));
        assert_eq!(health.readiness(START), fails(&["worker 0: Kafka does not answer: no connection"]));
    }

    #[test]
    fn a_member_that_owns_nothing_stands_by() {
        let health = Health::new();
        for _ in 0..2 {
            let worker = health.add_worker(START);
            lock(&worker).told_away(None);
            lock(&worker).told_joined(true);
        }
        let standby = ["ready", "worker 0: standby, no partitions", "worker 1: standby, no partitions"];
        assert_eq!(health.readiness(START), passes(&standby));
    }

    #[test]
    fn one_worker_that_has_not_joined_holds_the_process_back() {
        let health = Health::new();
        let (first, second) = (health.add_worker(START), health.add_worker(START));
        lock(&first).told_away(None);
        lock(&second).told_away(None);
        lock(&first).task(Partition(0), TaskState::Running);
        assert_eq!(health.readiness(START), fails(&["worker 1: no assignment yet"]));
    }

    #[test]
    fn a_draining_process_is_not_ready() {
        let health = Health::new();
        let worker = health.add_worker(START);
        lock(&worker).told_away(None);
        lock(&worker).told_joined(true);
        health.drain();
        assert_eq!(health.readiness(START), fails(&["draining"]));
        assert!(health.liveness(START).passes);
    }

    #[test]
    fn an_awaited_run_view_must_have_caught_up_once() {
        let health = Health::new();
        let worker = health.add_worker(START);
        lock(&worker).told_away(None);
        lock(&worker).told_joined(true);
        health.await_run_view();
        assert_eq!(health.readiness(START), fails(&["the run view has not caught up with the bundles topic"]));
        health.run_view_caught_up();
        assert!(health.readiness(START).passes);
    }

    #[test]
    fn liveness_names_the_worker() {
        let health = Health::new();
        let (first, _second) = (health.add_worker(START), health.add_worker(START));
        assert_eq!(health.liveness(START), passes(&["alive"]));
        let later = START + Duration::from_secs(130);
        lock(&first).polled(later);
        assert_eq!(health.liveness(later), fails(&["worker 1: not polled for 130 s"]));
    }

    #[test]
    fn a_broker_that_never_answers_does_not_make_a_polling_worker_dead() {
        let health = Health::new();
        let worker = health.add_worker(START);
        let later = START + Duration::from_secs(3_600);
        lock(&worker).polled(later);
        assert!(health.liveness(later).passes);
        assert!(!health.readiness(later).passes);
    }
}
