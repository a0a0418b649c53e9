//! The commit protocol and rebalances, over a broker of a few vectors; real Kafka is in `tests/broker/`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::collector;
use crate::ids::{Offset, Partition, TopicId};
use crate::task::{CommittedOffset, Header, Record, StateSize};
use crate::time::{Clock, Timestamp};

mod backoff;
mod lag;
mod outage;
mod position;
mod restore;
mod time;
mod topic;

/// What happened at the broker, in its order.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Call {
    Begin,
    Bundle(String),
    Changelog(i32),
    DeadLetter,
    SendOffsets(Vec<(i32, i64)>),
    Commit,
    CommitOffsets(Vec<(i32, i64)>),
    Abort,
    Assign(Vec<i32>),
    Resume(i32),
    Unassign(Vec<i32>),
}

enum Next {
    Record(i32, i64, &'static str, &'static str),
    End(i32),
    Assigned(Vec<i32>),
    Revoked(Vec<i32>),
    Lost(Vec<i32>),
    Error(BrokerError),
}

/// What one read of a changelog does.
enum Read {
    /// Gives a record.
    Record,
    /// Gives nothing; so many are left.
    Nothing(u64),
    Error(BrokerError),
}

/// Partition, key and value of a changelog record.
type Entry = (i32, Vec<u8>, Option<Vec<u8>>);

#[derive(Default)]
struct State {
    calls: RefCell<Vec<Call>>,
    next: RefCell<VecDeque<Next>>,
    committed: RefCell<BTreeMap<i32, i64>>,
    /// What another member commits while this one begins a restore: partition and offset.
    committed_meanwhile: Cell<Option<(i32, i64)>>,
    changelog: RefCell<Vec<Entry>>,
    /// Changelog partitions whose leader does not answer: a try takes two seconds.
    away: RefCell<Vec<i32>>,
    /// What reads of a changelog answer before they give what is in it.
    restores: RefCell<VecDeque<Read>>,
    /// What the next call of a transaction answers.
    commit_error: RefCell<Option<BrokerError>>,
    offsets_error: RefCell<Option<BrokerError>>,
    abort_error: RefCell<Option<BrokerError>>,
    /// The transaction coordinator does not answer.
    coordinator_is_away: Cell<bool>,
    pending_offsets: RefCell<Vec<(i32, i64)>>,
    pending_changelog: RefCell<Vec<Entry>>,
    topic: Cell<Option<&'static str>>,
    positions: RefCell<Vec<(i32, i64)>>,
    ends: Cell<Option<Ends>>,
    connected: Cell<bool>,
    now: Cell<u64>,
    stamp: Cell<i64>,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    registrations: usize,
    commits: usize,
    aborts: Vec<Step>,
    records: u64,
    states: Vec<(i32, TaskState)>,
    left: Vec<Option<u64>>,
    away: Vec<Option<String>>,
    joined: Vec<bool>,
    lags: Vec<Lag>,
}

#[derive(Clone, Default)]
struct Broker(Rc<State>);

impl Broker {
    fn push(&self, next: impl IntoIterator<Item = Next>) {
        self.0.next.borrow_mut().extend(next);
    }

    fn call(&self, call: Call) {
        self.0.calls.borrow_mut().push(call);
    }

    fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.calls.borrow_mut())
    }

    fn pass(&self, seconds: u64) {
        self.0.now.set(self.0.now.get() + seconds * 1000);
    }
}

fn numbers(partitions: &[Partition]) -> Vec<i32> {
    partitions.iter().map(|partition| partition.0).collect()
}

fn pairs(offsets: &[(Partition, Offset)]) -> Vec<(i32, i64)> {
    offsets.iter().map(|(partition, offset)| (partition.0, offset.0)).collect()
}

impl Consumer for Broker {
    type GroupMetadata = ();

    fn poll(&mut self, _: Duration, visit: &mut dyn FnMut(Polled<'_>)) -> Result<(), BrokerError> {
        let to_partitions = |numbers: Vec<i32>| numbers.into_iter().map(Partition).collect();
        let next = self.0.next.borrow_mut().pop_front();
        match next {
            Some(Next::Record(partition, offset, key, value)) => visit(Polled::Record(Record {
                partition: Partition(partition),
                offset: Offset(offset),
                timestamp: Some(Timestamp(1_000_000 + self.0.stamp.get())),
                key: Some(key.as_bytes()),
                value: Some(value.as_bytes()),
                headers: vec![Header { name: "h", value: None }],
            })),
            Some(Next::End(partition)) => visit(Polled::EndOfPartition(Partition(partition))),
            Some(Next::Assigned(partitions)) => visit(Polled::Assigned(to_partitions(partitions))),
            Some(Next::Revoked(partitions)) => visit(Polled::Revoked(to_partitions(partitions))),
            Some(Next::Lost(partitions)) => visit(Polled::Lost(to_partitions(partitions))),
            Some(Next::Error(e)) => return Err(e),
            None => {}
        }
        Ok(())
    }

    fn committed(&mut self, partitions: &[Partition], _: Duration) -> Result<Vec<Start>, BrokerError> {
        let committed = self.0.committed.borrow();
        let start = |partition: &Partition| Start {
            partition: *partition,
            committed: CommittedOffset { offset: committed.get(&partition.0).copied().map(Offset), has_state: true },
            from: Offset(committed.get(&partition.0).copied().unwrap_or(0)),
        };
        Ok(partitions.iter().map(start).collect())
    }

    fn assign(&mut self, starts: &[Start]) -> Result<(), BrokerError> {
        self.call(Call::Assign(starts.iter().map(|start| start.partition.0).collect()));
        Ok(())
    }

    fn resume(&mut self, partition: Partition) -> Result<(), BrokerError> {
        self.call(Call::Resume(partition.0));
        Ok(())
    }

    fn unassign(&mut self, partitions: &[Partition]) -> Result<(), BrokerError> {
        self.call(Call::Unassign(numbers(partitions)));
        Ok(())
    }

    fn group_metadata(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }

    fn commit_offsets(&mut self, offsets: &[(Partition, Offset)]) -> Result<(), BrokerError> {
        self.call(Call::CommitOffsets(pairs(offsets)));
        Ok(())
    }

    fn positions(&mut self) -> Result<Vec<(Partition, Offset)>, BrokerError> {
        Ok(self.0.positions.borrow().iter().map(|(partition, at)| (Partition(*partition), Offset(*at))).collect())
    }

    fn topic_id(&self) -> Option<TopicId> {
        self.0.topic.get().map(TopicId::from)
    }

    fn ends(&self, _: Partition) -> Option<Ends> {
        self.0.ends.get()
    }

    fn is_connected(&self) -> bool {
        self.0.connected.get()
    }

    fn close(&mut self, _: Duration) {}
}

impl Producer for Broker {
    type GroupMetadata = ();

    fn init_transactions(&mut self) -> Result<(), BrokerError> {
        if self.0.coordinator_is_away.get() {
            return Err(BrokerError::Retriable("no coordinator".into()));
        }
        self.0.seen.borrow_mut().registrations += 1;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.call(Call::Begin);
        Ok(())
    }

    fn send(&mut self, record: Outgoing<'_>) -> Result<(), BrokerError> {
        self.call(match record {
            Outgoing::Bundle(bundle) => Call::Bundle(bundle.session_id.to_string()),
            Outgoing::Changelog(partition, entry) => {
                let entry = (partition.0, entry.key.clone(), entry.value.clone());
                self.0.pending_changelog.borrow_mut().push(entry);
                Call::Changelog(partition.0)
            }
            Outgoing::DeadLetter(_) => Call::DeadLetter,
        });
        Ok(())
    }

    fn send_offsets(&mut self, offsets: &[(Partition, Offset)], (): &()) -> Result<(), BrokerError> {
        if let Some(e) = self.0.offsets_error.borrow_mut().take() {
            return Err(e);
        }
        self.call(Call::SendOffsets(pairs(offsets)));
        *self.0.pending_offsets.borrow_mut() = pairs(offsets);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BrokerError> {
        if let Some(e) = self.0.commit_error.borrow_mut().take() {
            return Err(e);
        }
        self.call(Call::Commit);
        self.0.committed.borrow_mut().extend(self.0.pending_offsets.borrow_mut().drain(..));
        self.0.changelog.borrow_mut().extend(self.0.pending_changelog.borrow_mut().drain(..));
        Ok(())
    }

    fn abort(&mut self) -> Result<(), BrokerError> {
        if let Some(e) = self.0.abort_error.borrow_mut().take() {
            return Err(e);
        }
        self.call(Call::Abort);
        self.0.pending_offsets.borrow_mut().clear();
        self.0.pending_changelog.borrow_mut().clear();
        Ok(())
    }
}

impl ChangelogReader for Broker {
    fn open(&mut self, partition: Partition) -> Result<(), BrokerError> {
        if self.0.away.borrow().contains(&partition.0) {
            self.pass(2);
            return Err(BrokerError::Retriable("no leader".into()));
        }
        self.0.committed.borrow_mut().extend(self.0.committed_meanwhile.take());
        Ok(())
    }

    fn read(
        &mut self,
        partition: Partition,
        _: Duration,
        visit: &mut dyn FnMut(&[u8], Option<&[u8]>),
    ) -> Result<RestoreProgress, BrokerError> {
        match self.0.restores.borrow_mut().pop_front() {
            Some(Read::Record) => {
                // The tombstone of a session that is not there changes nothing.
                visit(b"Sgone", None);
                return Ok(RestoreProgress::Restoring { left: None });
            }
            Some(Read::Nothing(left)) => return Ok(RestoreProgress::Restoring { left: Some(left) }),
            Some(Read::Error(e)) => return Err(e),
            None => {}
        }
        for (_, key, value) in self.0.changelog.borrow().iter().filter(|(of, ..)| *of == partition.0) {
            visit(key, value.as_deref());
        }
        Ok(RestoreProgress::Done)
    }

    fn close(&mut self, _: Partition) {}
}

impl Observer for Broker {
    fn committed(&mut self, commit: &Committed<'_>) {
        let mut seen = self.0.seen.borrow_mut();
        seen.commits += 1;
        seen.records += commit.counts.records;
    }

    fn aborted(&mut self, at: Step) {
        self.0.seen.borrow_mut().aborts.push(at);
    }

    fn joined(&mut self, joined: bool) {
        self.0.seen.borrow_mut().joined.push(joined);
    }

    fn task(&mut self, partition: Partition, state: TaskState, _: u64) {
        self.0.seen.borrow_mut().states.push((partition.0, state));
    }

    fn restoring(&mut self, _: Partition, left: Option<u64>) {
        self.0.seen.borrow_mut().left.push(left);
    }

    fn restored(&mut self, _: Partition, _: StateSize) {}

    fn lag(&mut self, _: Partition, lag: Lag) {
        self.0.seen.borrow_mut().lags.push(lag);
    }

    fn polled(&mut self, _: Duration) {}

    fn away(&mut self, why: Option<&str>) {
        self.0.seen.borrow_mut().away.push(why.map(str::to_owned));
    }

    fn progressed(&mut self, _: Partition, _: Offset) {}
}

impl Clock for Broker {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000 + self.0.now.get() as i64)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.now.get())
    }
}

type TestWorker = Worker<Broker, Broker, Broker, Broker, Broker>;

fn worker(guarantee: ProcessingGuarantee) -> (TestWorker, Broker) {
    let broker = Broker::default();
    broker.0.connected.set(true);
    let settings = Settings { processing_guarantee: guarantee, ..Settings::default() };
    let ports = (broker.clone(), broker.clone(), broker.clone(), broker.clone(), broker.clone());
    (Worker::new(ports, "events".into(), settings, Arc::new(collector::Settings::default())), broker)
}

const CREATED: &str = r#"{"type":"session.created"}"#;
const CLOSED: &str = r#"{"type":"session.closed"}"#;

/// A worker with partition 0, running; its beginning is committed.
fn running() -> (TestWorker, Broker) {
    let (mut worker, broker) = worker(ProcessingGuarantee::ExactlyOnce);
    broker.push([Next::Assigned(vec![0])]);
    worker.step().expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Assign(vec![0]), Call::Resume(0)]);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Begin, Call::Changelog(0), Call::SendOffsets(vec![(0, 0)]), Call::Commit]);
    broker.0.seen.borrow_mut().commits = 0;
    (worker, broker)
}

/// One round, a commit interval later.
fn round(worker: &mut TestWorker, broker: &Broker) -> Result<(), WorkerError> {
    broker.pass(1);
    worker.step()
}

#[test]
fn everything_of_a_commit_is_in_one_transaction() {
    let (mut worker, broker) = running();
    broker.push([
        Next::Record(0, 7, "a", CREATED),
        Next::Record(0, 8, "a", CLOSED),
        Next::Record(0, 9, "b", "nonsense"),
    ]);
    worker.step().expect("goes on");
    broker.push([Next::End(0)]);
    for _ in 0..4 {
        round(&mut worker, &broker).expect("goes on");
    }
    let calls = broker.take_calls();
    let first = [Call::Begin, Call::DeadLetter, Call::Changelog(0), Call::Changelog(0)];
    assert_eq!(calls[..4], first);
    assert_eq!(calls[4..6], [Call::SendOffsets(vec![(0, 10)]), Call::Commit]);
    // Silence ends the grace: the bundle, and the changelog that it leaves, in one transaction again.
    let second: Vec<_> = calls[6..].to_vec();
    assert_eq!(second[..2], [Call::Begin, Call::Bundle("a".into())]);
    assert_eq!(second[second.len() - 2..], [Call::SendOffsets(vec![(0, 10)]), Call::Commit]);
    assert_eq!(broker.0.seen.borrow().records, 3);
}

#[test]
fn an_aborted_commit_is_not_counted_and_its_records_are_processed_again() {
    let (mut worker, broker) = running();
    *broker.0.commit_error.borrow_mut() = Some(BrokerError::Abortable("coordinator moved".into()));
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert!(broker.take_calls().ends_with(&[Call::Abort, Call::Unassign(vec![0])]));
    assert_eq!((broker.0.seen.borrow().commits, &broker.0.seen.borrow().aborts[..]), (0, &[Step::Commit][..]));
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Assign(vec![0]), Call::Resume(0)]);
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!((broker.0.seen.borrow().commits, broker.0.seen.borrow().records), (1, 1));
}

#[test]
fn fenced_ends_the_worker_without_another_call() {
    let (mut worker, broker) = running();
    *broker.0.commit_error.borrow_mut() = Some(BrokerError::Fenced("newer producer".into()));
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    let ended = round(&mut worker, &broker);
    assert!(matches!(ended, Err(WorkerError::Broker(BrokerError::Fenced(_)))), "{ended:?}");
    assert!(!broker.take_calls().contains(&Call::Abort));
}

#[test]
fn revoked_partitions_are_committed_and_then_given_back() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Revoked(vec![0])]);
    worker.step().expect("goes on");
    let calls = broker.take_calls();
    assert_eq!(calls[calls.len() - 3..], [Call::SendOffsets(vec![(0, 8)]), Call::Commit, Call::Unassign(vec![0])]);
    assert_eq!(broker.0.seen.borrow().states.last(), Some(&(0, TaskState::Closed)));
}

#[test]
fn lost_partitions_are_dropped_without_a_commit() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Lost(vec![0])]);
    worker.step().expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Unassign(vec![0])]);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.take_calls(), []);
}

#[test]
fn a_record_of_a_partition_that_is_gone_is_dropped() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(3, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.take_calls(), []);
}

#[test]
fn the_next_owner_goes_on_where_the_changelog_stands() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Revoked(vec![0]), Next::Assigned(vec![0])]);
    for _ in 0..3 {
        worker.step().expect("goes on");
    }
    broker.take_calls();
    broker.push([Next::Record(0, 8, "a", CLOSED), Next::End(0)]);
    for _ in 0..4 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(broker.take_calls().contains(&Call::Bundle("a".into())));
}

#[test]
fn without_transactions_offsets_are_committed_after_what_they_stand_for() {
    let (mut worker, broker) = worker(ProcessingGuarantee::AtLeastOnce);
    broker.push([Next::Assigned(vec![0]), Next::Record(0, 7, "a", CREATED)]);
    worker.step().expect("goes on");
    round(&mut worker, &broker).expect("goes on");
    let calls = broker.take_calls();
    let state = [Call::Commit, Call::Begin, Call::Changelog(0), Call::Changelog(0), Call::Commit];
    assert_eq!(calls[calls.len() - 6..calls.len() - 1], state, "output, then state, then offsets");
    assert_eq!(calls.last(), Some(&Call::CommitOffsets(vec![(0, 8)])));
    assert!(!calls.iter().any(|call| matches!(call, Call::SendOffsets(_))));
}

#[test]
fn time_in_which_nobody_looked_is_not_silence() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::End(0)]);
    for _ in 0..4 {
        round(&mut worker, &broker).expect("goes on");
    }
    broker.take_calls();
    broker.pass(3600);
    for _ in 0..4 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(!broker.take_calls().contains(&Call::Bundle("a".into())));
}
