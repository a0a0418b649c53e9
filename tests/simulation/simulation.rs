//! One seed: processes take turns, things go wrong, then nothing does, and the result is judged.
//!
//! Single-threaded: a turn is one round of one worker. A worker that stands still in the middle of a call lets the others
//! take their turns meanwhile, so any two calls of different processes can follow each other.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use duplex_collector::task::RestoreError;
use duplex_collector::worker::{BrokerError, Settings, Worker, WorkerError};

use crate::invariant::{Invariant, Violation};
use crate::oracle::{self, Verdict};
use crate::plan::{Happened, Mishap, Plan};
use crate::ports::Port;
use crate::traffic::{self, BEGIN};
use crate::world::World;

pub const TOPIC: &str = "duplex.events";

/// Processes at once at most, but for zombies.
const MOST_SLOTS: usize = 5;
/// Once nothing goes wrong any more, everything must be done within this time.
const PATIENCE: u64 = 600_000;

type Process = Worker<Port, Port, Port, Port, Port>;

pub struct Simulation {
    pub world: RefCell<World>,
    /// By process; `None` for one that is gone or at its turn.
    workers: RefCell<Vec<Option<Process>>>,
    /// Slots whose process is gone: when the next one comes.
    vacant: RefCell<Vec<(String, u64)>>,
    /// Standstills within one another.
    depth: Cell<usize>,
    slots: Cell<usize>,
}

/// What a seed came to.
pub struct Outcome {
    pub verdict: Result<Verdict, Violation>,
    pub steps: u64,
    pub transactions: u64,
    pub happened: Happened,
    /// The last events, as text.
    pub history: String,
}

/// Runs a seed in which an unread record is deleted; `false` where there never was one to delete.
pub fn lose(seed: u64) -> Result<bool, Violation> {
    let simulation = Simulation::new(World::new(seed, Plan::new(seed)));
    let noticed = simulation.lose();
    simulation.release();
    noticed
}

/// Runs a seed in which the events topic is made anew; `false` where nothing of it was committed before.
pub fn replace(seed: u64) -> Result<bool, Violation> {
    let simulation = Simulation::new(World::new(seed, Plan::new(seed)));
    let noticed = simulation.replace();
    simulation.release();
    noticed
}

/// Runs a seed.
pub fn run(seed: u64) -> Outcome {
    let simulation = Simulation::new(World::new(seed, Plan::new(seed)));
    let verdict = panic::catch_unwind(AssertUnwindSafe(|| simulation.live()))
        .unwrap_or_else(|_| Err(Violation::new(Invariant::NoPanic, "see the message above")));
    simulation.release();
    let world = simulation.world.borrow();
    Outcome {
        verdict,
        steps: world.history.steps(),
        transactions: world.checker.transactions,
        happened: world.plan.happened,
        history: world.history.to_string(),
    }
}

impl Simulation {
    pub fn new(world: World) -> Rc<Self> {
        Rc::new(Self {
            world: RefCell::new(world),
            workers: RefCell::default(),
            vacant: RefCell::default(),
            depth: Cell::new(0),
            slots: Cell::new(0),
        })
    }

    /// Lets the workers go, whose ports hold the simulation.
    pub fn release(&self) {
        self.workers.take();
    }

    /// A process dies, and its supervisor starts the next one.
    pub fn kill_and_restart(&self, process: usize) {
        let mut world = self.world.borrow_mut();
        world.kill(process, "dies");
        self.workers.borrow_mut()[process] = None;
        let slot = world.clients[process].identity.transactional_id.clone();
        self.vacant.borrow_mut().push((slot, world.now + 500));
    }

    fn live(self: &Rc<Self>) -> Result<Verdict, Violation> {
        let (processes, trouble) = {
            let world = self.world.borrow();
            (world.plan.processes, BEGIN + world.plan.trouble)
        };
        for _ in 0..processes {
            self.start_new();
        }
        while self.world.borrow().now < trouble {
            self.turn();
            self.verdict_so_far()?;
        }
        self.calm();
        while !self.world.borrow().is_settled() {
            self.turn();
            self.verdict_so_far()?;
            let world = self.world.borrow();
            if world.now > trouble + PATIENCE {
                return Err(unsettled(&world));
            }
        }
        oracle::judge(&self.world.borrow())
    }

    /// As [`Self::live`], but that unread records are deleted at some time: a process has to end because of it.
    fn lose(self: &Rc<Self>) -> Result<bool, Violation> {
        let (processes, trouble, at) = {
            let mut world = self.world.borrow_mut();
            let trouble = world.plan.trouble;
            (world.plan.processes, BEGIN + trouble, BEGIN + world.random.below(trouble))
        };
        (0..processes).for_each(|_| self.start_new());
        while self.world.borrow().now < trouble {
            self.turn();
            self.verdict_so_far()?;
            let mut world = self.world.borrow_mut();
            if world.now >= at && world.lost.is_none() {
                world.delete_unread();
            }
        }
        if self.world.borrow().lost.is_none() {
            return Ok(false);
        }
        self.calm();
        while !self.world.borrow().is_loss_noticed {
            self.turn();
            self.verdict_so_far()?;
            let world = self.world.borrow();
            if world.now > trouble + PATIENCE {
                let detail = format!("an unread record of partition {:?} was deleted", world.lost);
                return Err(Violation::new(Invariant::LossIsNoticed, detail));
            }
        }
        Ok(true)
    }

    /// As [`Self::live`], but that the events topic is made anew at some time: a process has to end because of it, whatever it
    /// had committed before.
    fn replace(self: &Rc<Self>) -> Result<bool, Violation> {
        let (processes, at) = {
            let mut world = self.world.borrow_mut();
            let trouble = world.plan.trouble;
            (world.plan.processes, BEGIN + world.random.below(trouble))
        };
        (0..processes).for_each(|_| self.start_new());
        while self.world.borrow().now < at {
            self.turn();
            self.verdict_so_far()?;
        }
        if !self.world.borrow_mut().replace_events() {
            return Ok(false);
        }
        // Half of the time it happens in the middle of trouble.
        let calm_at = at + self.world.borrow_mut().random.between(0, 1) * 60_000;
        while !self.world.borrow().is_loss_noticed || self.world.borrow().now < calm_at {
            if self.world.borrow().now >= calm_at {
                self.calm();
            }
            self.turn();
            self.verdict_so_far()?;
            if self.world.borrow().now > at + PATIENCE {
                return Err(Violation::new(Invariant::LossIsNoticed, "the events topic was made anew"));
            }
        }
        Ok(true)
    }

    pub fn verdict_so_far(&self) -> Result<(), Violation> {
        let mut world = self.world.borrow_mut();
        world.check();
        world.checker.violation.take().map_or(Ok(()), Err)
    }

    /// From now on nothing goes wrong. Who stands still wakes up, zombies too, and no slot stays without a process.
    fn calm(&self) {
        let mut world = self.world.borrow_mut();
        world.plan.is_calm = true;
        for client in &mut world.clients {
            (client.frozen_until, client.out_of_reach_until, client.fetch_delay) = (0, 0, 0);
        }
    }

    /// Lets time pass, brings on what goes wrong, and lets one worker go one round.
    pub fn turn(self: &Rc<Self>) {
        let process = {
            let mut world = self.world.borrow_mut();
            world.history.step();
            let longest = if world.plan.is_calm { 600 } else { 400 };
            let pause = world.random.between(1, longest);
            world.pass(pause);
            let joins = self.slots.get() < MOST_SLOTS && world.plan.draws(Mishap::Join);
            drop(world);
            if joins {
                self.start_new();
            }
            self.disturb();
            self.fill_vacancies();
            let mut world = self.world.borrow_mut();
            let workers = self.workers.borrow();
            let ready: Vec<usize> = (0..workers.len())
                .filter(|process| workers[*process].is_some() && world.clients[*process].frozen_until <= world.now)
                .collect();
            if ready.is_empty() {
                return;
            }
            if world.plan.is_calm {
                // In turn, so that none is too slow for its group.
                ready[world.history.steps() as usize % ready.len()]
            } else {
                *world.random.pick(&ready)
            }
        };
        self.go(process);
    }

    /// One round of a worker; one that can't go on is dropped, and its slot is filled again.
    fn go(self: &Rc<Self>, process: usize) {
        let Some(mut worker) = self.workers.borrow_mut()[process].take() else { return };
        let is_draining = self.world.borrow().clients[process].is_draining;
        let result = if is_draining { worker.drain() } else { worker.step() };
        let mut world = self.world.borrow_mut();
        world.measure_silence(process);
        let is_another = |source: &RestoreError| matches!(source, RestoreError::AnotherTopic { .. });
        if let Err(WorkerError::Restore { source, .. } | WorkerError::State { source, .. }) = &result
            && is_another(source)
            && world.topic > 0
        {
            world.is_loss_noticed = true;
        } else if let Err(WorkerError::Restore { .. } | WorkerError::State { .. }) = &result {
            let detail = format!("process {process}: {}", result.as_ref().expect_err("it is one"));
            world.checker.violate(Violation::new(Invariant::StateCanBeRestored, detail));
        }
        if let Err(WorkerError::Broker(BrokerError::RecordsLost(why))) = &result {
            let member = &world.clients[process].member;
            let is_owner = member.metadata().is_some_and(|metadata| world.broker.group.accepts(metadata).is_ok());
            if world.lost.is_some() {
                world.is_loss_noticed = true;
            } else if is_owner {
                // Not somebody who has lost the partition and has not heard so.
                let violation = Violation::new(Invariant::NothingReadIsCalledLost, format!("process {process}: {why}"));
                world.checker.violate(violation);
            }
        }
        if let Err(e @ WorkerError::Broker(BrokerError::Fatal(why))) = &result
            && (why.contains("an empty transaction") || why.contains("no transaction is open"))
        {
            world.checker.violate(Violation::new(Invariant::PortsAreUsedAsPromised, format!("process {process}: {e}")));
        }
        let was_alive = world.clients[process].alive;
        if let Err(e) = &result
            && was_alive
            // Judged above.
            && !matches!(
                e,
                WorkerError::Restore { .. } | WorkerError::State { .. } | WorkerError::Broker(BrokerError::RecordsLost(_))
            )
            && !(matches!(e, WorkerError::Broker(BrokerError::Fenced(_))) && world.may_be_fenced(process))
        {
            world
                .checker
                .violate(Violation::new(Invariant::OutagesAreWaitedThrough, format!("process {process}: {e}")));
        }
        match result {
            Ok(()) if was_alive && !is_draining => {
                self.workers.borrow_mut()[process] = Some(worker);
                return;
            }
            Ok(()) => drop(world.kill(process, "is gone")),
            Err(e) => drop(world.kill(process, &format!("ends: {e}"))),
        }
        // On its way out a client leaves its group, if it comes to that.
        if was_alive && world.random.one_in(2) {
            let now = world.now;
            if let Some(member) = world.clients[process].member.id() {
                world.broker.group.leave(member, now);
            }
        }
        self.vacate(&mut world, process);
    }

    /// A process stands still in the middle of a call.
    pub fn stand_still(self: &Rc<Self>, process: usize, milliseconds: u64, call: &str) {
        // Two deep is enough for three processes in the middle of a commit.
        if self.depth.get() >= 2 {
            return;
        }
        self.depth.set(self.depth.get() + 1);
        let until = {
            let mut world = self.world.borrow_mut();
            let (now, until) = (world.now, world.now + milliseconds);
            world.history.tell(now, process, &format!("stands still for {milliseconds} ms before {call}"));
            world.freeze(process, until);
            until
        };
        while self.world.borrow().now < until && self.world.borrow().checker.violation.is_none() {
            self.turn();
        }
        self.world.borrow_mut().clients[process].frozen_until = 0;
        self.depth.set(self.depth.get() - 1);
    }

    /// A call of a process is not answered and takes its whole time.
    pub fn hang(self: &Rc<Self>, process: usize) {
        if self.depth.get() >= 2 {
            return;
        }
        self.depth.set(self.depth.get() + 1);
        let until = {
            let mut world = self.world.borrow_mut();
            let until = world.now + world.random.between(1_000, 9_000);
            let now = world.now;
            world.history.tell(now, process, "gets no answer");
            until
        };
        while self.world.borrow().now < until && self.world.borrow().checker.violation.is_none() {
            self.turn();
        }
        self.depth.set(self.depth.get() - 1);
    }

    pub fn start_new(self: &Rc<Self>) {
        let slot = self.slots.get();
        self.slots.set(slot + 1);
        self.start(format!("collector-{slot}-0"));
    }

    fn start(self: &Rc<Self>, transactional_id: String) {
        let process = self.world.borrow_mut().start(transactional_id);
        let port = Port { simulation: Rc::clone(self), process };
        let settings = Settings {
            commit_interval: Duration::from_millis(300),
            restore_timeout: Duration::from_secs(60),
            ..Settings::default()
        };
        let ports = (port.clone(), port.clone(), port.clone(), port.clone(), port);
        let worker = Worker::new(ports, TOPIC.into(), settings, Arc::new(traffic::settings()));
        self.workers.borrow_mut().push(Some(worker));
    }

    /// A process is gone; its supervisor starts the next one of its slot, after a while.
    fn vacate(&self, world: &mut World, process: usize) {
        let slot = world.clients[process].identity.transactional_id.clone();
        let until = world.now + if world.random.one_in(5) { 60_000 } else { world.random.between(100, 5_000) };
        let is_taken = world.clients.iter().any(|client| client.alive && client.identity.transactional_id == slot);
        let mut vacant = self.vacant.borrow_mut();
        if !is_taken && !vacant.iter().any(|(other, _)| *other == slot) {
            vacant.push((slot, until));
        }
    }

    fn fill_vacancies(self: &Rc<Self>) {
        let (now, is_calm) = {
            let world = self.world.borrow();
            (world.now, world.plan.is_calm)
        };
        let mut due = Vec::new();
        self.vacant.borrow_mut().retain(|(slot, at)| {
            let is_due = *at <= now || is_calm;
            if is_due {
                due.push(slot.clone());
            }
            !is_due
        });
        due.into_iter().for_each(|slot| self.start(slot));
    }

    /// Brings on what goes wrong between two rounds.
    fn disturb(self: &Rc<Self>) {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let idle: Vec<usize> = (0..world.clients.len())
            .filter(|process| world.clients[*process].alive && self.workers.borrow()[*process].is_some())
            .collect();
        if idle.is_empty() {
            return;
        }
        let process = *world.random.pick(&idle);
        let now = world.now;
        if world.plan.draws(Mishap::Crash) {
            world.kill(process, "dies");
            self.workers.borrow_mut()[process] = None;
            self.vacate(world, process);
            return;
        }
        if world.plan.draws(Mishap::Freeze) {
            let longest = *world.random.pick(&[14_000, 40_000]);
            let still = world.random.between(500, longest);
            world.history.tell(now, process, &format!("stands still for {still} ms"));
            world.freeze(process, now + still);
            if world.plan.draws(Mishap::Replacement) {
                self.vacant.borrow_mut().push((world.clients[process].identity.transactional_id.clone(), now + 500));
            }
        }
        if world.plan.draws(Mishap::Drain) {
            world.history.tell(now, process, "is told to stop");
            world.clients[process].is_draining = true;
        }
        if world.plan.draws(Mishap::Rebalance) {
            world.history.tell(now, process, "the group is to rebalance");
            world.broker.group.rebalance(now);
        }
        if world.plan.draws(Mishap::Outage) {
            let longest = *world.random.pick(&[5_000, 40_000, 120_000]);
            let lasts = world.random.between(500, longest);
            world.history.tell(now, process, &format!("the broker is out of reach for {lasts} ms"));
            world.clients[process].out_of_reach_until = now + lasts;
            world.clients[process].producer_reaches = world.random.one_in(2);
        }
        if world.plan.draws(Mishap::ClockJump) {
            let back = world.plan.most_off as i64;
            world.clients[process].wall_offset = world.random.between(0, 2 * world.plan.most_off) as i64 - back;
        }
        if world.plan.draws(Mishap::SlowFetch) {
            world.clients[process].fetch_delay = world.random.between(0, 2_000);
        }
    }
}

/// Why a run did not come to its end.
fn unsettled(world: &World) -> Violation {
    match world.broker.unfinished_transactions() {
        0 => {
            let (lag, open) = (world.lag(), world.checker.open());
            Violation::new(
                Invariant::LagZeroAtEnd,
                format!("{lag} offsets are not committed, {open} sessions are open"),
            )
        }
        n => Violation::new(Invariant::NoOpenTransactionAtEnd, format!("{n} transactions have no end")),
    }
}
