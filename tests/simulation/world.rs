//! Everything but the code under test: the cluster, the clients' sides of it, time, and who checks.

use std::collections::{BTreeMap, BTreeSet};

use duplex_collector::worker::BrokerError;

use crate::broker::{Broker, Identity, LogId};
use crate::check::Checker;
use crate::group::Metadata;
use crate::history::History;
use crate::log::{Body, Log, TransactionId};
use crate::member::{Flow, Member};
use crate::outages::Outage;
use crate::plan::{Mishap, Plan};
use crate::random::Random;
use crate::traffic::{self, Arrival, BEGIN, Nature};

/// A tombstone of the changelog may be cleaned away after this long.
const TOMBSTONES_KEPT: u64 = 60_000;
/// The longest step of silence that a task takes; nothing longer is let pass for it.
const LONGEST_SILENCE: u64 = 5_000;

/// A record in a producer's queue.
pub type Queued = (LogId, Vec<u8>, Option<Vec<u8>>);

/// A restore that is under way.
#[derive(Debug)]
pub struct Reader {
    /// The high watermark when it was opened.
    pub end: i64,
    pub position: i64,
}

/// One process: its member, its producer, its clocks.
#[derive(Debug)]
pub struct Client {
    pub alive: bool,
    pub identity: Identity,
    pub member: Member,
    /// The group's metadata as it was first read, for the fault that goes on with it.
    pub kept_metadata: Option<Metadata>,
    pub queue: Vec<Queued>,
    pub in_transaction: bool,
    pub readers: BTreeMap<i32, Reader>,
    pub frozen_until: u64,
    pub out_of_reach_until: u64,
    /// Then too: its producer has connections of its own.
    pub producer_reaches: bool,
    /// Records are delivered this long after their arrival.
    pub fetch_delay: u64,
    /// A process that stood still has fetched nothing since the one time, and does not before the other.
    pub fetches_nothing: (u64, u64),
    /// How far the wall clock is off, in milliseconds.
    pub wall_offset: i64,
    /// It was told to stop.
    pub is_draining: bool,
    pub looked_at: u64,
    /// When it was started, and when it was gone.
    pub began: u64,
    pub died: Option<u64>,
    /// It stood still once: its transaction may have been given up meanwhile.
    pub stood_still: bool,
    /// The partitions whose tasks run.
    pub running: BTreeSet<i32>,
    /// The id of the events topic, as it last heard.
    pub topic: Option<u64>,
}

#[derive(Debug)]
pub struct World {
    pub now: u64,
    pub broker: Broker,
    pub clients: Vec<Client>,
    pub plan: Plan,
    pub random: Random,
    pub history: History,
    pub checker: Checker,
    pub arrivals: Vec<Arrival>,
    next_arrival: usize,
    /// The partition whose unread records were deleted, where they were.
    pub lost: Option<i32>,
    /// A process has ended because of that.
    pub is_loss_noticed: bool,
    /// Open transactions of other producers: partition, transaction, and when it is aborted.
    foreign: Vec<(i32, TransactionId, u64)>,
    next_foreign: TransactionId,
    /// What a test has in store.
    pub outage: Option<Outage>,
    pub next_commit_fails: bool,
    /// The id of the events topic: how often it was made anew.
    pub topic: u64,
    /// The partitions that had a state when it was.
    pub had_state: BTreeSet<i32>,
}

impl World {
    pub fn new(seed: u64, mut plan: Plan) -> Self {
        let arrivals = traffic::make(&mut plan, &mut Random::new(seed, 1));
        Self {
            now: BEGIN,
            broker: Broker::new(plan.partitions, plan.cooperative),
            clients: Vec::new(),
            checker: Checker::new(plan.partitions),
            plan,
            random: Random::new(seed, 2),
            history: History::default(),
            arrivals,
            next_arrival: 0,
            lost: None,
            is_loss_noticed: false,
            foreign: Vec::new(),
            next_foreign: 1 << 40,
            outage: None,
            next_commit_fails: false,
            topic: 0,
            had_state: BTreeSet::new(),
        }
    }

    /// A process that takes `transactional_id`; its number.
    pub fn start(&mut self, transactional_id: String) -> usize {
        let process = self.clients.len();
        self.history.tell(self.now, process, &format!("starts as {transactional_id}"));
        self.clients.push(Client {
            alive: true,
            identity: Identity { transactional_id, epoch: 0, process },
            member: Member::default(),
            kept_metadata: None,
            queue: Vec::new(),
            in_transaction: false,
            readers: BTreeMap::new(),
            frozen_until: 0,
            out_of_reach_until: 0,
            producer_reaches: false,
            fetch_delay: 0,
            fetches_nothing: (0, 0),
            wall_offset: 0,
            is_draining: false,
            looked_at: self.now,
            began: self.now,
            died: None,
            stood_still: false,
            running: BTreeSet::new(),
            topic: None,
        });
        process
    }

    /// A process is gone: nothing it does afterwards counts.
    pub fn kill(&mut self, process: usize, why: &str) -> BrokerError {
        self.history.tell(self.now, process, why);
        self.clients[process].alive = false;
        self.clients[process].died.get_or_insert(self.now);
        BrokerError::Fatal(why.to_owned())
    }

    /// Lets time pass for the cluster and the producers.
    pub fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        while let Some(arrival) = self.arrivals.get(self.next_arrival).filter(|arrival| arrival.at <= self.now) {
            self.next_arrival += 1;
            let log = self.broker.logs.get_mut(&LogId::Events(arrival.partition)).expect("a partition of events");
            let is_aborted = arrival.nature == Nature::Gap;
            // Unlike those of the coordinator, which begin at 1.
            let own = u64::MAX - self.next_arrival as u64;
            let transaction = (is_aborted || self.plan.transactional_events).then_some(own);
            let (key, value) = (arrival.key.clone(), arrival.value.clone());
            let offset = log.append(Body::Data { key, value, transaction }, arrival.timestamp, arrival.at);
            if let Some(transaction) = transaction {
                log.mark(transaction, !is_aborted, arrival.at);
            }
            // What is committed of another topic is not judged.
            if !is_aborted && self.topic == 0 {
                self.checker.arrived(offset, arrival);
            }
        }
        for client in &self.clients {
            if let Some(member) = client.member.id()
                && client.alive
                && client.frozen_until.max(client.out_of_reach_until) <= self.now
            {
                self.broker.group.heartbeat(member, self.now);
            }
        }
        let markers_are_slow = self.plan.draws(Mishap::SlowMarkers);
        self.broker.tick(self.now, markers_are_slow, &mut self.random);
        if self.plan.draws(Mishap::OldOffsets) {
            self.broker.group.replicates_no_more(self.now + self.random.between(200, 10_000));
        }
        if self.plan.draws(Mishap::Compaction) {
            self.compact();
        }
        if self.plan.draws(Mishap::LaggingLeader) {
            let until = self.now + self.random.between(200, 15_000);
            let log = LogId::Changelog(self.random.below(self.plan.partitions as u64) as i32);
            let log = self.broker.logs.get_mut(&log).expect("a partition of the changelog");
            // Not so often that no other leads for as long as a worker waits.
            if log.lacks_until() + 60_000 < self.now {
                log.lack_tombstones(until);
            }
        }
        if self.plan.draws(Mishap::Retention) {
            self.delete_read();
        }
        self.trouble_readers();
    }

    /// Deletes what was read and committed of a partition.
    fn delete_read(&mut self) {
        let partition = self.random.below(self.plan.partitions as u64) as i32;
        let group = &self.broker.group;
        let told = group.told(partition, self.now).unwrap_or(0).min(group.committed(partition).unwrap_or(0));
        self.broker.logs.get_mut(&LogId::Events(partition)).expect("a partition of events").delete_below(told);
    }

    /// Deletes a record that nobody has read of a partition that is being read; whether there was one.
    pub fn delete_unread(&mut self) -> bool {
        let partition = self.random.below(self.plan.partitions as u64) as i32;
        // A transaction that is being ended may have read and committed it.
        let committed = self.broker.group.committed(partition).filter(|_| !self.broker.group.is_unstable(partition));
        let Some(committed) = committed else { return false };
        let log = self.broker.logs.get_mut(&LogId::Events(partition)).expect("a partition of events");
        // Nobody's position is past it either.
        let read =
            self.clients.iter().filter_map(|client| client.member.held.get(&partition)).map(|held| held.position);
        let from = read.max().unwrap_or(0).max(committed);
        let Some(unread) = log.read(from).next().map(|record| record.offset) else { return false };
        log.delete_below(unread + 1);
        self.lost = Some(partition);
        true
    }

    /// Other producers begin transactions on the events topic, and abort them: until then nothing behind is to be read.
    fn trouble_readers(&mut self) {
        let events = |partition| LogId::Events(partition);
        if self.plan.draws(Mishap::OpenTransaction) {
            let partition = self.random.below(self.plan.partitions as u64) as i32;
            let (id, until) = (self.next_foreign, self.now + self.random.between(200, 60_000));
            self.next_foreign += 1;
            let body = Body::Data { key: None, value: Some(b"not yet".to_vec()), transaction: Some(id) };
            let log = self.broker.logs.get_mut(&events(partition)).expect("a partition of events");
            log.append(body, self.now as i64, self.now);
            self.foreign.push((partition, id, until));
        }
        let (now, is_calm) = (self.now, self.plan.is_calm);
        let logs = &mut self.broker.logs;
        self.foreign.retain(|(partition, id, until)| {
            let is_over = *until <= now || is_calm;
            if is_over {
                logs.get_mut(&events(*partition)).expect("a partition of events").mark(*id, false, now);
            }
            !is_over
        });
    }

    fn compact(&mut self) {
        let log = LogId::Changelog(self.random.below(self.plan.partitions as u64) as i32);
        let log = self.broker.logs.get_mut(&log).expect("a partition of the changelog");
        // The newest part is never cleaned.
        let below = self.random.below(log.end().max(1) as u64) as i64;
        log.compact(below, self.now, TOMBSTONES_KEPT);
    }

    /// Whether every record that producers have was written.
    pub fn is_written(&self) -> bool {
        self.next_arrival == self.arrivals.len()
    }

    /// A process stands still until then, and fetches nothing for a while longer.
    pub fn freeze(&mut self, process: usize, until: u64) {
        let until_fetched = until + self.random.between(0, 1_500);
        let client = &mut self.clients[process];
        client.frozen_until = until;
        client.stood_still = true;
        client.fetches_nothing = (self.now, until_fetched);
    }

    pub fn out_of_reach(&self, process: usize) -> bool {
        self.clients[process].out_of_reach_until > self.now
    }

    /// Whether its producer gets no answer.
    pub fn is_cut_off(&self, process: usize) -> bool {
        self.out_of_reach(process) && !self.clients[process].producer_reaches
    }

    /// Whether another process has its `transactional.id`, or may have had it.
    pub fn may_be_fenced(&self, process: usize) -> bool {
        let client = &self.clients[process];
        let is_another = |other: &Client| {
            other.identity.process != process && other.identity.transactional_id == client.identity.transactional_id
        };
        let began = client.began;
        client.stood_still
            || self.clients.iter().any(|other| is_another(other) && other.died.is_none_or(|died| died > began))
    }

    /// Appends what a producer has queued, or the first `at_most` of it.
    pub fn flush(&mut self, process: usize, at_most: usize) -> Result<(), crate::broker::Refused> {
        let client = &mut self.clients[process];
        let queued: Vec<Queued> = client.queue.drain(..at_most.min(client.queue.len())).collect();
        for (log, key, value) in queued {
            self.broker.append(&client.identity, log, key, value, self.now)?;
        }
        Ok(())
    }

    /// What the client answers for the group's metadata; `None` when it knows that it is out.
    pub fn metadata(&mut self, process: usize) -> Option<Metadata> {
        let member = &self.clients[process].member;
        let is_out = member.id().is_some_and(|id| !self.broker.group.knows(id));
        // It may have heard of it in the background, or not yet.
        if is_out && self.random.one_in(2) { None } else { member.metadata() }
    }

    /// The end of a partition as far as records are fetched.
    pub fn fetched_end(&self, process: usize, partition: i32) -> i64 {
        let log = self.broker.log(LogId::Events(partition));
        let client = &self.clients[process];
        let (since, until) = client.fetches_nothing;
        if client.fetch_delay == 0 && until <= self.now {
            return log.stable_end();
        }
        let held = client.member.held.get(&partition);
        let from = held.map_or(0, |held| held.position);
        let unfetched = log
            .read(from)
            .find(|record| record.at + client.fetch_delay > self.now || (record.at > since && self.now < until));
        unfetched.map_or(log.stable_end(), |record| record.offset)
    }

    /// Takes note of how long a process let time pass for partitions that it took for silent and were not. While the
    /// broker is out of its reach none may pass.
    pub fn measure_silence(&mut self, process: usize) {
        let is_out_of_reach = self.out_of_reach(process);
        let Client { member, looked_at, .. } = &mut self.clients[process];
        for (partition, held) in &mut member.held {
            let next = self.broker.logs[&LogId::Events(*partition)].read(held.position).next().map(|record| record.at);
            match next {
                Some(_) if is_out_of_reach => {}
                Some(arrived_at) if held.flow == Flow::Flowing => {
                    held.unseen += (self.now - arrived_at.max(*looked_at).min(self.now)).min(LONGEST_SILENCE);
                    self.checker.unseen(*partition, held.unseen);
                }
                _ => held.unseen = 0,
            }
        }
        *looked_at = self.now;
    }

    /// Deletes the events topic and makes it anew, as long as something of it is committed; whether it was.
    pub fn replace_events(&mut self) -> bool {
        let partitions = 0..self.plan.partitions;
        self.had_state = partitions.clone().filter(|p| self.broker.group.committed(*p).is_some()).collect();
        if self.had_state.is_empty() {
            return false;
        }
        self.topic += 1;
        for partition in partitions {
            self.broker.logs.insert(LogId::Events(partition), Log::default());
        }
        // The broker deletes them along, unless somebody has committed again since.
        if self.random.one_in(2) {
            self.broker.group.forget_offsets();
        }
        true
    }

    /// Whether all that was written was read and committed, and no session is open any more.
    pub fn is_settled(&self) -> bool {
        self.is_written() && self.broker.unfinished_transactions() == 0 && self.lag() == 0 && self.checker.open() == 0
    }

    /// Offsets between the committed ones and the ends, as a monitor of lag counts: control records and aborted batches are
    /// among them, and so is a partition of which nothing is committed.
    pub fn lag(&self) -> i64 {
        let of = |partition: i32| {
            let committed = self.broker.group.committed(partition).unwrap_or(-1);
            self.broker.log(LogId::Events(partition)).end() - committed
        };
        (0..self.plan.partitions).map(of).sum()
    }
}
