//! Outages that begin at a chosen call, of every length: the worker waits, goes on soon after, and all is exactly once.

use std::rc::Rc;

use crate::oracle;
use crate::plan::Plan;
use crate::simulation::Simulation;
use crate::traffic::BEGIN;
use crate::world::World;

/// How soon a worker runs all partitions once it is answered again, in virtual milliseconds.
const GOES_ON_WITHIN: u64 = 10_000;
/// Once producers have written everything for this long, nothing comes any more.
const SILENCE: u64 = 5_000;
/// When an outage under traffic begins.
const UNDER_TRAFFIC: u64 = BEGIN + 20_000;
/// Calls by the beginning of their names.
const CALLS: [&str; 9] = [
    "init transactions",
    "committed",
    "open changelog",
    "read changelog",
    "begin",
    "send",
    "send offsets",
    "commit",
    "abort",
];
/// So many of them are made at the start.
const OF_A_START: usize = 4;
const LENGTHS: [u64; 5] = [5_000, 25_000, 40_000, 120_000, 3_600_000];

/// An outage that is to come.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// The first call with such a name meets it.
    call: &'static str,
    length: u64,
    has_traffic: bool,
    /// What leads to the call was brought about.
    is_ripe: bool,
    /// Until when it lasts, once it has begun.
    until: Option<u64>,
}

impl World {
    /// Begins the outage that waits for this call.
    pub fn begin_outage(&mut self, process: usize, call: &str) {
        let now = self.now;
        let Some(outage) = self.outage.as_mut().filter(|outage| outage.is_ripe && outage.until.is_none()) else {
            return;
        };
        if call.starts_with(outage.call) {
            outage.until = Some(now + outage.length);
            self.clients[process].out_of_reach_until = now + outage.length;
            self.history.tell(now, process, &format!("the broker is out of reach for {} ms", outage.length));
        }
    }
}

/// Brings about what leads to the call once it is time: calls of a start by a death, an abort by a failure.
fn ripen(simulation: &Rc<Simulation>) {
    let mut world = simulation.world.borrow_mut();
    let (now, is_written) = (world.now, world.is_written());
    let last = world.arrivals.last().map_or(BEGIN, |arrival| arrival.at);
    let outage = world.outage.as_mut().expect("it is to come");
    let is_time = if outage.has_traffic { now >= UNDER_TRAFFIC } else { is_written && now >= last + SILENCE };
    if !is_time || std::mem::replace(&mut outage.is_ripe, true) {
        return;
    }
    let call = outage.call;
    if call == "abort" {
        world.next_commit_fails = true;
    }
    drop(world);
    if CALLS[..OF_A_START].contains(&call) {
        simulation.kill_and_restart(0);
    }
}

/// One process that meets an outage.
fn suffer(seed: u64, outage: Outage) -> Result<(), String> {
    let mut plan = Plan::quiet(seed);
    plan.processes = 1;
    let mut world = World::new(seed, plan);
    world.outage = Some(outage);
    let simulation = Simulation::new(world);
    simulation.start_new();
    let result = go_through(&simulation);
    simulation.release();
    result.map_err(|why| format!("seed {seed}, {outage:?}: {why}\n{}", simulation.world.borrow().history))
}

fn go_through(simulation: &Rc<Simulation>) -> Result<(), String> {
    let turn = || {
        simulation.turn();
        simulation.verdict_so_far().map_err(|violation| violation.to_string())
    };
    let begins_by = simulation.world.borrow().arrivals.last().map_or(BEGIN, |arrival| arrival.at) + 200_000;
    let until = loop {
        turn()?;
        let world = simulation.world.borrow();
        if let Some(until) = world.outage.and_then(|outage| outage.until) {
            break until;
        }
        if world.now > begins_by {
            return Err("no such call was made".into());
        }
        drop(world);
        ripen(simulation);
    };
    let is_running = || {
        let world = simulation.world.borrow();
        world.clients.iter().any(|client| client.alive && client.running.len() == world.plan.partitions as usize)
    };
    while simulation.world.borrow().now < until {
        turn()?;
    }
    while !is_running() {
        turn()?;
        if simulation.world.borrow().now > until + GOES_ON_WITHIN {
            return Err(format!("not every partition runs {GOES_ON_WITHIN} ms after the outage"));
        }
    }
    while !simulation.world.borrow().is_settled() {
        turn()?;
        if simulation.world.borrow().now > until + 600_000 {
            return Err("it does not come to its end".into());
        }
    }
    oracle::judge(&simulation.world.borrow()).map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn a_worker_waits_through_an_outage_of_any_length_at_any_call_and_goes_on_within_ten_seconds() {
    for call in CALLS {
        for length in LENGTHS {
            for has_traffic in [true, false] {
                let outage = Outage { call, length, has_traffic, is_ripe: false, until: None };
                for seed in 0..3 {
                    suffer(seed, outage).unwrap_or_else(|why| panic!("{why}"));
                }
            }
        }
    }
}
