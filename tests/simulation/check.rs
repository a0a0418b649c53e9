//! The invariants that are checked as transactions are decided, after every call that can decide one.

use std::collections::{BTreeMap, BTreeSet};

use duplex_collector::collector::SessionCollector;
use duplex_collector::ids::SessionId;
use duplex_collector::task::Counts;
use serde::Deserialize;

use crate::broker::{Broker, LogId, Transaction};
use crate::invariant::{Invariant, Violation};
use crate::traffic::{Arrival, Nature};
use crate::world::World;

/// A record of the events topic, as it was written.
#[derive(Clone, Debug)]
pub struct Record {
    pub offset: i64,
    pub arrival: Arrival,
}

/// A bundle that was committed.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    pub first: i64,
    pub last: i64,
    pub reason: String,
    pub json: Vec<u8>,
}

/// A partition of the events topic and a session id.
pub type Session = (i32, String);

/// What was committed so far.
#[derive(Debug, Default)]
pub struct Checker {
    pub violation: Option<Violation>,
    /// By partition, in the order of offsets.
    pub records: Vec<Vec<Record>>,
    pub bundles: BTreeMap<Session, Vec<Written>>,
    pub letters: BTreeSet<(i32, i64)>,
    /// By partition: the longest that a task may have taken a partition for silent that was not, in milliseconds.
    pub unseen: Vec<u64>,
    pub transactions: u64,
    partitions: Vec<Committed>,
    /// By process: the records of its last commit, until they are counted.
    uncounted: BTreeMap<usize, u64>,
}

/// What is committed of a partition.
#[derive(Debug, Default)]
struct Committed {
    next: i64,
    /// The changelog: offset and value of each key.
    state: BTreeMap<Vec<u8>, (i64, Option<Vec<u8>>)>,
    /// The last record of each session below the committed offset.
    last: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Bundle {
    session_id: String,
    session: BundleSession,
    source: BundleSource,
}

#[derive(Deserialize)]
struct BundleSession {
    end_reason: String,
}

#[derive(Deserialize)]
struct BundleSource {
    partition: i32,
    first_offset: i64,
    last_offset: i64,
}

impl World {
    /// Checks the transactions that were decided since the last call.
    pub fn check(&mut self) {
        for transaction in std::mem::take(&mut self.broker.decided) {
            if let Err(violation) = self.decided(&transaction) {
                self.checker.violate(violation);
            }
        }
    }

    fn decided(&mut self, transaction: &Transaction) -> Result<(), Violation> {
        let id = &self.clients[transaction.process].identity.transactional_id;
        if self.broker.epoch(id) != Some(transaction.epoch) {
            let detail = format!("process {} commits as {id} of an old epoch", transaction.process);
            return Err(Violation::new(Invariant::FencedProducerWritesNothingVisible, detail));
        }
        if self.topic == 0 {
            return self.checker.decided(transaction, &self.broker);
        }
        let knows = self.clients[transaction.process].topic == Some(self.topic);
        let moved = transaction.offsets.iter().flatten().find(|(partition, _)| self.had_state.contains(partition));
        match moved.filter(|_| knows) {
            Some((partition, next)) => {
                let detail = format!("partition {partition} is committed at {next} with the state of the former topic");
                Err(Violation::new(Invariant::OneTopicOneState, detail))
            }
            None => Ok(()),
        }
    }
}

impl Checker {
    pub fn new(partitions: i32) -> Self {
        let mut checker = Self::default();
        for _ in 0..partitions {
            checker.records.push(Vec::new());
            checker.unseen.push(0);
            checker.partitions.push(Committed::default());
        }
        checker
    }

    /// Keeps the first violation.
    pub fn violate(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub fn arrived(&mut self, offset: i64, arrival: &Arrival) {
        self.records[arrival.partition as usize].push(Record { offset, arrival: arrival.clone() });
    }

    pub fn unseen(&mut self, partition: i32, milliseconds: u64) {
        let most = &mut self.unseen[partition as usize];
        *most = (*most).max(milliseconds);
    }

    /// Sessions that the committed changelog has open.
    pub fn open(&self) -> usize {
        let states = self.partitions.iter().flat_map(|committed| &committed.state);
        states.filter(|(key, (_, value))| key.first() == Some(&b'S') && value.is_some()).count()
    }

    /// The worker told its observer of a commit.
    pub fn counted(&mut self, process: usize, counts: &Counts) {
        let expected = self.uncounted.remove(&process);
        if expected != Some(counts.records) {
            let detail = format!("process {process} counts {} records, committed are {expected:?}", counts.records);
            self.violate(Violation::new(Invariant::CountedAfterCommit, detail));
        }
    }

    fn decided(&mut self, transaction: &Transaction, broker: &Broker) -> Result<(), Violation> {
        self.transactions += 1;
        let offsets: BTreeMap<i32, i64> = transaction.offsets.iter().flatten().copied().collect();
        let mut written = BTreeSet::new();
        let mut touched: BTreeSet<Session> = BTreeSet::new();
        let mut keys = BTreeSet::new();
        for (log, offset) in &transaction.writes {
            let record = broker.log(*log).at(*offset).expect("what an open transaction wrote is not compacted");
            let key = record.key.unwrap_or_default();
            match *log {
                LogId::Changelog(partition) => {
                    written.insert(partition);
                    let state = &mut self.partitions[partition as usize].state;
                    let newer = (*offset, record.value.map(<[u8]>::to_vec));
                    if state.get(key).is_none_or(|(older, _)| older < offset) {
                        state.insert(key.to_vec(), newer);
                    }
                    keys.insert((partition, key.to_vec()));
                }
                LogId::Bundles(_) => {
                    let session = self.bundle(record.value.unwrap_or_default())?;
                    written.insert(session.0);
                    touched.insert(session);
                }
                LogId::DeadLetters => {
                    written.insert(self.letter(key, &offsets)?);
                }
                LogId::Events(_) => unreachable!("nothing of a worker goes to the events topic"),
            }
        }
        for (partition, id) in &touched {
            if !keys.contains(&(*partition, [b"C", id.as_bytes()].concat())) {
                let detail = format!("the bundle of {id} is committed and its end is not recorded");
                return Err(Violation::new(Invariant::ChangelogAgreesWithOffsets, detail));
            }
        }
        let moved: BTreeSet<i32> = offsets.keys().copied().collect();
        if moved != written {
            let detail = format!("output of partitions {written:?} is committed with the offsets of {moved:?}");
            return Err(Violation::new(Invariant::OffsetsMoveWithOutput, detail));
        }
        let mut records = 0;
        for (partition, next) in &offsets {
            records += self.advance(*partition, *next, &mut touched)?;
        }
        self.uncounted.insert(transaction.process, records);
        touched.iter().try_for_each(|session| self.agrees(session))
    }

    fn bundle(&mut self, json: &[u8]) -> Result<Session, Violation> {
        let bundle: Bundle = serde_json::from_slice(json)
            .map_err(|e| Violation::new(Invariant::BytesAsWithoutFaults, format!("a bundle can't be read: {e}")))?;
        let session = (bundle.source.partition, bundle.session_id);
        let (first, last) = (bundle.source.first_offset, bundle.source.last_offset);
        let before = self.bundles.entry(session.clone()).or_default();
        if let Some(other) = before.iter().find(|other| first <= other.last && other.first <= last) {
            let detail = format!(
                "{} of partition {} has a bundle of the records {first} to {last} and one of {} to {}",
                session.1, session.0, other.first, other.last
            );
            return Err(Violation::new(Invariant::OneBundlePerSession, detail));
        }
        before.push(Written { first, last, reason: bundle.session.end_reason, json: json.to_vec() });
        before.sort_by_key(|written| written.first);
        Ok(session)
    }

    /// Takes a dead letter; the partition that it is of.
    fn letter(&mut self, key: &[u8], offsets: &BTreeMap<i32, i64>) -> Result<i32, Violation> {
        let key = String::from_utf8_lossy(key).into_owned();
        let (partition, offset) = key.split_once('/').expect("partition and offset");
        let (partition, offset): (i32, i64) =
            (partition.parse().expect("a partition"), offset.parse().expect("an offset"));
        let covered = self.partitions[partition as usize].next..offsets.get(&partition).copied().unwrap_or(0);
        if !covered.contains(&offset) {
            let detail = format!("the dead letter of {key} is committed with the offsets {covered:?}");
            return Err(Violation::new(Invariant::OffsetsMoveWithOutput, detail));
        }
        if !self.letters.insert((partition, offset)) {
            return Err(Violation::new(Invariant::DeadLettersOnce, format!("{key} has two")));
        }
        Ok(partition)
    }

    /// Moves a partition's offset; how many records that covers.
    fn advance(&mut self, partition: i32, next: i64, touched: &mut BTreeSet<Session>) -> Result<u64, Violation> {
        let committed = &mut self.partitions[partition as usize];
        if next < committed.next {
            let detail = format!("partition {partition} goes back from {} to {next}", committed.next);
            return Err(Violation::new(Invariant::OffsetsMoveWithOutput, detail));
        }
        let records = &self.records[partition as usize];
        let from = records.partition_point(|record| record.offset < committed.next);
        let to = records.partition_point(|record| record.offset < next);
        for record in &records[from..to] {
            if let Nature::Event { session, .. } = &record.arrival.nature {
                committed.last.insert(session.clone(), record.offset);
                touched.insert((partition, session.clone()));
            }
        }
        committed.next = next;
        Ok((to - from) as u64)
    }

    /// Whether the committed state has the session as far as the committed offset.
    fn agrees(&self, session: &Session) -> Result<(), Violation> {
        let (partition, id) = session;
        let broken = |detail: String| {
            let detail = format!("{id} of partition {partition}: {detail}");
            Err(Violation::new(Invariant::ChangelogAgreesWithOffsets, detail))
        };
        let committed = &self.partitions[*partition as usize];
        let get = |key: Vec<u8>| committed.state.get(&key).and_then(|(_, value)| value.as_deref());
        let last = committed.last.get(id).copied().unwrap_or(-1);
        let bundles = self.bundles.get(session).map(Vec::as_slice).unwrap_or_default();
        if let Some(beyond) = bundles.iter().find(|bundle| bundle.last > last) {
            return broken(format!("its bundle goes to {}, the offset is {}", beyond.last, committed.next));
        }
        let Some(head) = get([b"S", id.as_bytes()].concat()) else {
            return match bundles.first() {
                Some(bundle) if bundle.first <= last => Ok(()),
                _ => broken(format!("its records up to {last} are neither in the state nor in a bundle")),
            };
        };
        let part = |kind: &[u8], index: u32| get([kind, &index.to_be_bytes(), id.as_bytes()].concat());
        let parts = |kind| (0..).map_while(move |index| part(kind, index).map(|value| (index, value)));
        match SessionCollector::restore(SessionId::from(id.as_str()), head, parts(b"H"), parts(b"R")) {
            Err(e) => broken(format!("its state can't be restored: {e}")),
            Ok(restored) if restored.head().last_offset.0 != last => {
                broken(format!("its state goes to {}, its records to {last}", restored.head().last_offset))
            }
            Ok(restored) if bundles.iter().any(|bundle| bundle.last >= restored.head().first_offset.0) => {
                broken("it is open and has its bundle".into())
            }
            Ok(_) => Ok(()),
        }
    }
}
