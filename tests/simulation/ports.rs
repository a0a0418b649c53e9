//! The worker's ports over the simulated cluster. Every call can be the last one of its process.

use std::cell::RefMut;
use std::rc::Rc;
use std::time::Duration;

use duplex_collector::fault::{self, Fault};
use duplex_collector::ids::{Offset, Partition, TopicId};
use duplex_collector::task::{CommittedOffset, Record, StateSize};
use duplex_collector::time::{Clock, Timestamp};
use duplex_collector::worker::{
    BrokerError, ChangelogReader, Committed, Consumer, Ends, Lag, Observer, Outgoing, Polled, Producer,
    RestoreProgress, Start, Step, TaskState,
};

use crate::broker::{BUNDLE_PARTITIONS, LogId, Refused};
use crate::group::Metadata;
use crate::member::{Flow, Told};
use crate::plan::Mishap;
use crate::simulation::Simulation;
use crate::world::{Reader, World};

/// All ports of one process.
#[derive(Clone)]
pub struct Port {
    pub simulation: Rc<Simulation>,
    pub process: usize,
}

impl Port {
    fn world(&self) -> RefMut<'_, World> {
        self.simulation.world.borrow_mut()
    }

    /// Makes a call: before it and after it the process may die, before it others may go on while this one stands still.
    fn call<T>(
        &self,
        name: &str,
        effect: impl FnOnce(&mut World, usize) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        let still = {
            let mut world = self.world();
            world.begin_outage(self.process, name);
            if !world.clients[self.process].alive {
                return Err(BrokerError::Fatal("this process is dead".into()));
            }
            if world.plan.draws(Mishap::CrashAtCall) && world.random.one_in(2) {
                return Err(world.kill(self.process, &format!("dies before {name}")));
            }
            world.plan.draws(Mishap::StandstillAtCall).then(|| world.random.between(100, 20_000))
        };
        if let Some(still) = still {
            self.simulation.stand_still(self.process, still, name);
        }
        let mut world = self.world();
        if !world.clients[self.process].alive {
            return Err(BrokerError::Fatal("this process is dead".into()));
        }
        let result = effect(&mut world, self.process);
        let now = world.now;
        match &result {
            Ok(_) => world.history.tell(now, self.process, name),
            Err(e) => world.history.tell(now, self.process, &format!("{name}: {e}")),
        }
        world.check();
        if result.is_ok() && world.plan.draws(Mishap::CrashAtCall) {
            return Err(world.kill(self.process, &format!("dies after {name}")));
        }
        result
    }
}

impl Port {
    /// A call that was not answered took its whole time, and the others went on meanwhile.
    fn waited(&self, answer: Result<(), BrokerError>) -> Result<(), BrokerError> {
        if matches!(answer, Err(BrokerError::Undecided(_))) {
            self.simulation.hang(self.process);
        }
        answer
    }
}

fn unreachable<T>() -> Result<T, BrokerError> {
    Err(BrokerError::Retriable("the broker does not answer".into()))
}

fn refused(refused: Refused) -> BrokerError {
    match refused {
        Refused::Fenced => BrokerError::Fenced("a newer epoch".into()),
        Refused::Group(why) => BrokerError::Abortable(why.into()),
        Refused::NothingOpen => BrokerError::Fatal("an empty transaction".into()),
        Refused::Busy => BrokerError::Retriable("the former transaction is being ended".into()),
    }
}

impl Consumer for Port {
    type GroupMetadata = Metadata;

    fn poll(&mut self, _: Duration, visit: &mut dyn FnMut(Polled<'_>)) -> Result<(), BrokerError> {
        let mut world = self.world();
        let world = &mut *world;
        if !world.clients[self.process].alive {
            return Err(BrokerError::Fatal("this process is dead".into()));
        }
        if world.out_of_reach(self.process) {
            return unreachable();
        }
        let now = world.now;
        // Heard of before anything of it is fetched.
        world.clients[self.process].topic = Some(world.topic);
        let told = world.clients[self.process].member.next(&mut world.broker.group, now);
        if let Some(told) = told {
            world.history.tell(now, self.process, &format!("is told {told:?}"));
            let of = |partitions: Vec<i32>| partitions.into_iter().map(Partition).collect();
            visit(match told {
                Told::Assigned(partitions) => Polled::Assigned(of(partitions)),
                Told::Revoked(partitions) => Polled::Revoked(of(partitions)),
                Told::Lost(partitions) => Polled::Lost(of(partitions)),
            });
            return Ok(());
        }
        let partitions: Vec<i32> = world.clients[self.process].member.held.keys().copied().collect();
        if partitions.is_empty() {
            return Ok(());
        }
        let first = world.random.below(partitions.len() as u64) as usize;
        for partition in partitions[first..].iter().chain(&partitions[..first]).copied() {
            if world.deliver(self.process, partition, visit)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn committed(&mut self, partitions: &[Partition], _: Duration) -> Result<Vec<Start>, BrokerError> {
        self.call("committed", |world, process| {
            if world.out_of_reach(process) || world.plan.draws(Mishap::NoOffsets) {
                return unreachable();
            }
            let is_unstable = partitions.iter().any(|partition| world.broker.group.is_unstable(partition.0));
            if is_unstable && !fault::is_on(Fault::TakeUnstableOffsets) {
                return Err(BrokerError::Retriable("offsets of a pending transaction".into()));
            }
            let start = |partition: &Partition| {
                let offset = world.broker.group.told(partition.0, world.now).map(Offset);
                let from = offset.unwrap_or(Offset(world.broker.log(LogId::Events(partition.0)).start()));
                Start {
                    partition: *partition,
                    committed: CommittedOffset { offset, has_state: offset.is_some() },
                    from,
                }
            };
            Ok(partitions.iter().map(start).collect())
        })
    }

    fn assign(&mut self, starts: &[Start]) -> Result<(), BrokerError> {
        self.call(&format!("assign {starts:?}"), |world, process| {
            for start in starts {
                world.clients[process].member.assign(start.partition.0, start.from.0);
            }
            Ok(())
        })
    }

    fn resume(&mut self, partition: Partition) -> Result<(), BrokerError> {
        self.call(&format!("resume {partition}"), |world, process| {
            world.clients[process].member.resume(partition.0);
            Ok(())
        })
    }

    fn unassign(&mut self, partitions: &[Partition]) -> Result<(), BrokerError> {
        let numbers: Vec<i32> = partitions.iter().map(|partition| partition.0).collect();
        self.call(&format!("unassign {numbers:?}"), |world, process| {
            world.clients[process].member.unassign(&numbers);
            Ok(())
        })
    }

    fn group_metadata(&mut self) -> Result<Metadata, BrokerError> {
        self.call("group metadata", |world, process| match world.metadata(process) {
            Some(metadata) if fault::is_on(Fault::KeepGroupMetadata) => {
                Ok(*world.clients[process].kept_metadata.get_or_insert(metadata))
            }
            Some(metadata) => Ok(metadata),
            None if fault::is_on(Fault::CommitWhenLost) => Ok(Metadata::BLANK),
            None => Err(BrokerError::Abortable("this member is out of its group".into())),
        })
    }

    fn commit_offsets(&mut self, offsets: &[(Partition, Offset)]) -> Result<(), BrokerError> {
        let offsets: Vec<(i32, i64)> = offsets.iter().map(|(partition, offset)| (partition.0, offset.0)).collect();
        self.call(&format!("commit offsets {offsets:?}"), |world, process| {
            let metadata = world.metadata(process).unwrap_or(Metadata::BLANK);
            world.broker.group.accepts(metadata).map_err(|why| BrokerError::Abortable(why.into()))?;
            world.broker.group.commit(&offsets);
            Ok(())
        })
    }

    fn positions(&mut self) -> Result<Vec<(Partition, Offset)>, BrokerError> {
        let world = self.world();
        let member = &world.clients[self.process].member;
        let known = member.held.iter().filter(|(partition, held)| held.is_polled && member.accepts(**partition));
        Ok(known.map(|(partition, held)| (Partition(*partition), Offset(held.position))).collect())
    }

    fn topic_id(&self) -> Option<TopicId> {
        let topic = self.simulation.world.borrow().clients[self.process].topic;
        topic.map(|topic| TopicId::from(topic.to_string().as_str()))
    }

    fn ends(&self, partition: Partition) -> Option<Ends> {
        let world = self.simulation.world.borrow();
        let log = world.broker.log(LogId::Events(partition.0));
        Some(Ends { stable: Offset(log.stable_end()), high: Offset(log.end()) })
    }

    fn is_connected(&self) -> bool {
        let world = self.simulation.world.borrow();
        !world.out_of_reach(self.process)
    }

    fn close(&mut self, _: Duration) {
        let mut world = self.world();
        let now = world.now;
        if let Some(member) = world.clients[self.process].member.id().filter(|_| world.clients[self.process].alive) {
            world.broker.group.leave(member, now);
        }
    }
}

impl World {
    /// Delivers what is next of a partition; whether there was something.
    fn deliver(
        &mut self,
        process: usize,
        partition: i32,
        visit: &mut dyn FnMut(Polled<'_>),
    ) -> Result<bool, BrokerError> {
        let end = self.fetched_end(process, partition);
        let member = &mut self.clients[process].member;
        if !member.accepts(partition) {
            return Ok(false);
        }
        let held = member.held.get_mut(&partition).expect("an accepted partition is held");
        if held.flow == Flow::Paused && !self.plan.draws(Mishap::SlippedRecord) {
            return Ok(false);
        }
        let log = self.broker.log(LogId::Events(partition));
        if held.position > log.end() && held.flow == Flow::Flowing {
            return Err(BrokerError::RecordsLost(format!("partition {partition} ends before {}", held.position)));
        }
        if held.position < log.start() {
            if held.flow == Flow::Paused {
                return Ok(false);
            }
            let (at, start) = (held.position, log.start());
            return Err(BrokerError::RecordsLost(format!(
                "partition {partition} is read at {at} and begins at {start}"
            )));
        }
        let again = self.plan.draws(Mishap::Redelivery);
        let from = if again { (held.position - 2).max(0) } else { held.position };
        match log.read(from).next().filter(|record| record.offset < end) {
            Some(record) => {
                held.position = held.position.max(record.offset + 1);
                held.told_end_at = None;
                held.is_polled = true;
                visit(Polled::Record(Record {
                    partition: Partition(partition),
                    offset: Offset(record.offset),
                    timestamp: Some(Timestamp(record.timestamp)),
                    key: record.key,
                    value: record.value,
                    headers: Vec::new(),
                }));
                Ok(true)
            }
            None if held.flow == Flow::Flowing && held.told_end_at != Some(end) => {
                held.told_end_at = Some(end);
                // Control records and aborted batches are polled as well, and never told.
                held.position = held.position.max(end);
                held.is_polled = true;
                visit(Polled::EndOfPartition(Partition(partition)));
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

impl Producer for Port {
    type GroupMetadata = Metadata;

    fn init_transactions(&mut self) -> Result<(), BrokerError> {
        self.call("init transactions", |world, process| {
            if world.out_of_reach(process) {
                return unreachable();
            }
            let client = &mut world.clients[process];
            let epoch = world.broker.init(&client.identity.transactional_id).map_err(refused)?;
            (client.identity.epoch, client.in_transaction) = (epoch, false);
            client.queue.clear();
            Ok(())
        })
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.call("begin", |world, process| {
            if std::mem::replace(&mut world.clients[process].in_transaction, true) {
                return Err(BrokerError::Fatal("a transaction is open already".into()));
            }
            Ok(())
        })
    }

    fn send(&mut self, record: Outgoing<'_>) -> Result<(), BrokerError> {
        let (queued, name) = match record {
            Outgoing::Bundle(bundle) => {
                let id = bundle.session_id.as_str();
                let log = LogId::Bundles(i32::from(id.as_bytes().last().copied().unwrap_or(0)) % BUNDLE_PARTITIONS);
                ((log, id.as_bytes().to_vec(), Some(bundle.json.clone())), format!("send bundle {id}"))
            }
            Outgoing::Changelog(partition, entry) => {
                let queued = (LogId::Changelog(partition.0), entry.key.clone(), entry.value.clone());
                let what = if entry.value.is_some() { "state" } else { "tombstone" };
                (queued, format!("send {what} {} of {partition}", String::from_utf8_lossy(&entry.key)))
            }
            Outgoing::DeadLetter(letter) => {
                let key = format!("{}/{}", letter.partition, letter.offset);
                let name = format!("send dead letter {key}");
                ((LogId::DeadLetters, key.into_bytes(), Some(letter.payload.clone())), name)
            }
        };
        self.call(&name, |world, process| {
            let client = &mut world.clients[process];
            if !client.in_transaction {
                return Err(BrokerError::Fatal("no transaction is open".into()));
            }
            client.queue.push(queued);
            if world.random.one_in(4) {
                let some = world.random.between(1, 3) as usize;
                return world.flush(process, some).map_err(refused);
            }
            Ok(())
        })
    }

    fn send_offsets(&mut self, offsets: &[(Partition, Offset)], group: &Metadata) -> Result<(), BrokerError> {
        let offsets: Vec<(i32, i64)> = offsets.iter().map(|(partition, offset)| (partition.0, offset.0)).collect();
        let sent = self.call(&format!("send offsets {offsets:?}"), |world, process| {
            if world.is_cut_off(process) {
                return Err(BrokerError::Undecided("send offsets: no answer".into()));
            }
            let now = world.now;
            let client = &world.clients[process];
            world.broker.add_offsets(&client.identity, &offsets, *group, now).map_err(refused)
        });
        self.waited(sent)
    }

    fn commit(&mut self) -> Result<(), BrokerError> {
        let committed = self.call("commit", |world, process| {
            let fails = std::mem::take(&mut world.next_commit_fails);
            if fails || world.is_cut_off(process) || world.plan.draws(Mishap::FailedDelivery) {
                return Err(BrokerError::Retriable("records were not delivered in time".into()));
            }
            world.flush(process, usize::MAX).map_err(refused)?;
            let unknown = |why: &str| Err(BrokerError::Undecided(why.into()));
            if world.plan.draws(Mishap::LostRequest) {
                return unknown("the request was lost");
            }
            world.clients[process].in_transaction = false;
            world.broker.end(&world.clients[process].identity, true).map_err(refused)?;
            if world.plan.draws(Mishap::LostAnswer) {
                return unknown("the answer was lost");
            }
            Ok(())
        });
        self.waited(committed)
    }

    fn abort(&mut self) -> Result<(), BrokerError> {
        let aborted = self.call("abort", |world, process| {
            if world.is_cut_off(process) {
                return Err(BrokerError::Undecided("abort: no answer".into()));
            }
            let client = &mut world.clients[process];
            client.queue.clear();
            client.in_transaction = false;
            match world.broker.end(&client.identity, false) {
                Ok(()) | Err(Refused::NothingOpen) => Ok(()),
                Err(e) => Err(refused(e)),
            }
        });
        self.waited(aborted)
    }
}

/// As `kafka::Changelog`: the end is the high watermark, and reading waits until the last stable offset has come so far.
impl ChangelogReader for Port {
    fn open(&mut self, partition: Partition) -> Result<(), BrokerError> {
        self.call(&format!("open changelog {partition}"), |world, process| {
            if world.out_of_reach(process) || (world.plan.draws(Mishap::SlowRestore) && world.random.one_in(4)) {
                return unreachable();
            }
            let log = world.broker.log(LogId::Changelog(partition.0));
            let end = if fault::is_on(Fault::RestoreToStableEnd) { log.stable_end() } else { log.end() };
            world.clients[process].readers.insert(partition.0, Reader { end, position: 0 });
            Ok(())
        })
    }

    fn read(
        &mut self,
        partition: Partition,
        _: Duration,
        visit: &mut dyn FnMut(&[u8], Option<&[u8]>),
    ) -> Result<RestoreProgress, BrokerError> {
        self.call(&format!("read changelog {partition}"), |world, process| {
            let is_slow = world.plan.draws(Mishap::SlowRestore);
            if world.out_of_reach(process) || (is_slow && world.random.one_in(6)) {
                return unreachable();
            }
            let at_most = if is_slow { world.random.between(1, 8) as usize } else { usize::MAX };
            let now = world.now;
            let log = world.broker.log(LogId::Changelog(partition.0));
            let Some(reader) = world.clients[process].readers.get_mut(&partition.0) else {
                return Err(BrokerError::Fatal("the changelog partition is not open".into()));
            };
            if log.stable_end() < reader.end {
                return Ok(RestoreProgress::Restoring { left: None });
            }
            let mut read = 0;
            for record in log.read_of_leader(reader.position, now).take(at_most) {
                visit(record.key.unwrap_or_default(), record.value);
                reader.position = record.offset + 1;
                read += 1;
            }
            let left = u64::try_from(log.end() - reader.position).ok();
            Ok(if read < at_most { RestoreProgress::Done } else { RestoreProgress::Restoring { left } })
        })
    }

    fn close(&mut self, partition: Partition) {
        self.world().clients[self.process].readers.remove(&partition.0);
    }
}

impl Observer for Port {
    fn committed(&mut self, commit: &Committed<'_>) {
        let mut world = self.world();
        if world.clients[self.process].alive && world.topic == 0 {
            world.checker.counted(self.process, commit.counts);
        }
    }

    fn aborted(&mut self, _: Step) {}

    fn joined(&mut self, _: bool) {}

    fn task(&mut self, partition: Partition, state: TaskState, _: u64) {
        let mut world = self.world();
        let now = world.now;
        world.history.tell(now, self.process, &format!("task {partition} {state:?}"));
        let running = &mut world.clients[self.process].running;
        if state == TaskState::Running {
            running.insert(partition.0)
        } else {
            running.remove(&partition.0)
        };
    }

    fn restoring(&mut self, _: Partition, _: Option<u64>) {}

    fn restored(&mut self, _: Partition, _: StateSize) {}

    fn lag(&mut self, _: Partition, _: Lag) {}

    fn polled(&mut self, _: Duration) {}

    fn away(&mut self, _: Option<&str>) {}

    fn progressed(&mut self, _: Partition, _: Offset) {}
}

impl Clock for Port {
    fn now(&self) -> Timestamp {
        let world = self.simulation.world.borrow();
        Timestamp(world.now as i64 + world.clients[self.process].wall_offset)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.simulation.world.borrow().now)
    }
}
