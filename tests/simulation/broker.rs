//! The cluster: logs of all topics, the transaction coordinator, the group coordinator.
//!
//! ```text
//!           first write                 end                     every marker written
//!   Empty ---------------> Ongoing ---------------> Ending ------------------------------> Empty
//!                             | init_transactions, timeout: a new epoch, then Ending (abort)
//! ```
//! An end is answered before its markers are written, as Kafka does: until then the offsets are pending and the records
//! above the last stable offset.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::{Group, Metadata};
use crate::log::{Body, Log, TransactionId};
use crate::random::Random;

/// A transaction that is open for this long is aborted by the coordinator, in virtual milliseconds.
pub const TRANSACTION_TIMEOUT: u64 = 25_000;

/// A partition of a topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogId {
    Events(i32),
    Changelog(i32),
    Bundles(i32),
    DeadLetters,
}

/// Partitions of the bundles topic.
pub const BUNDLE_PARTITIONS: i32 = 2;

/// Why a call was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The producer's epoch is not the coordinator's.
    Fenced,
    /// The group does not accept this member's offsets.
    Group(&'static str),
    /// Nothing was written since the last end.
    NothingOpen,
    /// The former transaction is being ended: ask again.
    Busy,
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub id: TransactionId,
    /// The process that began it.
    pub process: usize,
    pub began: u64,
    pub epoch: u32,
    pub writes: Vec<(LogId, i64)>,
    /// `None`: none were sent.
    pub offsets: Option<Vec<(i32, i64)>>,
}

#[derive(Debug)]
enum State {
    Empty,
    Ongoing(Transaction),
    Ending { transaction: Transaction, commit: bool, left: Vec<Target> },
}

/// Where a marker is still to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Log(LogId),
    Offsets,
}

#[derive(Debug)]
struct Registered {
    epoch: u32,
    state: State,
}

/// A producer as it stands in its requests.
#[derive(Clone, Debug)]
pub struct Identity {
    pub transactional_id: String,
    pub epoch: u32,
    pub process: usize,
}

#[derive(Debug)]
pub struct Broker {
    pub logs: BTreeMap<LogId, Log>,
    pub group: Group,
    producers: BTreeMap<String, Registered>,
    next_transaction: TransactionId,
    /// Transactions whose commit was decided, for those who check.
    pub decided: Vec<Transaction>,
}

impl Broker {
    pub fn new(partitions: i32, cooperative: bool) -> Self {
        let logs = (0..partitions).flat_map(|p| [LogId::Events(p), LogId::Changelog(p)]);
        let logs = logs.chain((0..BUNDLE_PARTITIONS).map(LogId::Bundles)).chain([LogId::DeadLetters]);
        Self {
            logs: logs.map(|id| (id, Log::default())).collect(),
            group: Group::new(partitions, cooperative),
            producers: BTreeMap::new(),
            next_transaction: 1,
            decided: Vec::new(),
        }
    }

    pub fn log(&self, id: LogId) -> &Log {
        &self.logs[&id]
    }

    fn log_mut(&mut self, id: LogId) -> &mut Log {
        self.logs.get_mut(&id).expect("a log of this cluster")
    }

    /// Registers a `transactional.id`: the epoch of its new owner. What is open is aborted first.
    pub fn init(&mut self, transactional_id: &str) -> Result<u32, Refused> {
        let registered = self
            .producers
            .entry(transactional_id.to_owned())
            .or_insert_with(|| Registered { epoch: 0, state: State::Empty });
        match std::mem::replace(&mut registered.state, State::Empty) {
            State::Empty => {
                registered.epoch += 1;
                Ok(registered.epoch)
            }
            State::Ongoing(transaction) => {
                registered.epoch += 1;
                registered.state = State::ending(transaction, false);
                Err(Refused::Busy)
            }
            ending @ State::Ending { .. } => {
                registered.state = ending;
                Err(Refused::Busy)
            }
        }
    }

    /// Appends a record within the producer's transaction, which begins with it.
    pub fn append(
        &mut self,
        by: &Identity,
        log: LogId,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
        now: u64,
    ) -> Result<(), Refused> {
        let registered = self.producers.get(&by.transactional_id).ok_or(Refused::Fenced)?;
        if by.epoch != registered.epoch {
            // The leader of a partition learns of the new epoch by the marker: until then it takes what is aborted.
            return match &registered.state {
                State::Ending { transaction, commit: false, left }
                    if transaction.epoch == by.epoch && left.contains(&Target::Log(log)) =>
                {
                    let transaction = Some(transaction.id);
                    self.log_mut(log).append(Body::Data { key: Some(key), value, transaction }, now as i64, now);
                    Ok(())
                }
                _ => Err(Refused::Fenced),
            };
        }
        let transaction = Some(self.ongoing(by, now)?.id);
        let offset = self.log_mut(log).append(Body::Data { key: Some(key), value, transaction }, now as i64, now);
        self.ongoing(by, now)?.writes.push((log, offset));
        Ok(())
    }

    /// Adds offsets to the producer's transaction.
    pub fn add_offsets(
        &mut self,
        by: &Identity,
        offsets: &[(i32, i64)],
        group: Metadata,
        now: u64,
    ) -> Result<(), Refused> {
        let transaction = self.ongoing(by, now)?.id;
        self.group.accepts(group).map_err(Refused::Group)?;
        self.group.add_pending(transaction, offsets);
        self.ongoing(by, now)?.offsets.get_or_insert_default().extend(offsets);
        Ok(())
    }

    /// Ends the producer's transaction. Answered once it is decided; markers follow.
    pub fn end(&mut self, by: &Identity, commit: bool) -> Result<(), Refused> {
        let registered = self.producers.get_mut(&by.transactional_id).ok_or(Refused::Fenced)?;
        if registered.epoch != by.epoch {
            return Err(Refused::Fenced);
        }
        match std::mem::replace(&mut registered.state, State::Empty) {
            State::Ongoing(transaction) => {
                if commit {
                    self.decided.push(transaction.clone());
                }
                registered.state = State::ending(transaction, commit);
                Ok(())
            }
            other => {
                registered.state = other;
                Err(Refused::NothingOpen)
            }
        }
    }

    /// The transaction of a producer whose epoch counts; a former one that is being ended is waited for.
    fn ongoing(&mut self, by: &Identity, now: u64) -> Result<&mut Transaction, Refused> {
        let registered = self.producers.get(&by.transactional_id).ok_or(Refused::Fenced)?;
        if registered.epoch != by.epoch {
            return Err(Refused::Fenced);
        }
        if matches!(registered.state, State::Ending { .. }) {
            self.write_markers(&by.transactional_id, now, usize::MAX);
        }
        let registered = self.producers.get_mut(&by.transactional_id).expect("it was there");
        if matches!(registered.state, State::Empty) {
            let (id, process, epoch) = (self.next_transaction, by.process, by.epoch);
            self.next_transaction += 1;
            registered.state =
                State::Ongoing(Transaction { id, process, began: now, epoch, writes: Vec::new(), offsets: None });
        }
        match &mut registered.state {
            State::Ongoing(transaction) => Ok(transaction),
            State::Empty | State::Ending { .. } => Err(Refused::Busy),
        }
    }

    fn write_markers(&mut self, transactional_id: &str, now: u64, at_most: usize) {
        let Some(registered) = self.producers.get_mut(transactional_id) else { return };
        let State::Ending { transaction, commit, left } = &mut registered.state else { return };
        let (id, commit) = (transaction.id, *commit);
        let now_written: Vec<Target> = left.drain(..at_most.min(left.len())).collect();
        if left.is_empty() {
            registered.state = State::Empty;
        }
        for target in now_written {
            match target {
                Target::Log(log) => self.log_mut(log).mark(id, commit, now),
                Target::Offsets => self.group.mark(id, commit),
            }
        }
    }

    /// Writes markers, up to one of each transaction where they are slow, and aborts what was open for too long.
    pub fn tick(&mut self, now: u64, markers_are_slow: bool, random: &mut Random) {
        let ids: Vec<String> = self.producers.keys().cloned().collect();
        for id in ids {
            let registered = self.producers.get_mut(&id).expect("it was there");
            match &registered.state {
                State::Ongoing(transaction) if now - transaction.began >= TRANSACTION_TIMEOUT => {
                    registered.epoch += 1;
                    if let State::Ongoing(transaction) = std::mem::replace(&mut registered.state, State::Empty) {
                        registered.state = State::ending(transaction, false);
                    }
                }
                State::Ending { .. } if !markers_are_slow => self.write_markers(&id, now, usize::MAX),
                State::Ending { .. } if random.one_in(4) => self.write_markers(&id, now, 1),
                State::Ending { .. } | State::Ongoing(_) | State::Empty => {}
            }
        }
        self.group.tick(now, random);
    }

    /// The epoch that counts.
    pub fn epoch(&self, transactional_id: &str) -> Option<u32> {
        self.producers.get(transactional_id).map(|registered| registered.epoch)
    }

    /// Transactions without all of their markers.
    pub fn unfinished_transactions(&self) -> usize {
        let open = self.producers.values().filter(|registered| !matches!(registered.state, State::Empty)).count();
        open + self.logs.values().map(Log::open_transactions).sum::<usize>()
    }
}

impl State {
    fn ending(transaction: Transaction, commit: bool) -> Self {
        let logs: BTreeSet<LogId> = transaction.writes.iter().map(|(log, _)| *log).collect();
        let mut left: Vec<Target> = logs.into_iter().map(Target::Log).collect();
        // Anywhere in the order: offsets may become stable before the records do, and after.
        if transaction.offsets.is_some() {
            left.insert(transaction.id as usize % (left.len() + 1), Target::Offsets);
        }
        if left.is_empty() {
            return Self::Empty;
        }
        Self::Ending { transaction, commit, left }
    }
}
