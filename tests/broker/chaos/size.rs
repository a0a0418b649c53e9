//! How many faults: few for every change, many for a release.

use std::env;

use super::of_outages::How::{self, Killed, Stopped};
use super::of_outages::Kind::{self, AllBrokers, Coordinator, Leader};
use super::of_outages::Outage;

/// Counts of each kind of fault.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub seed: u64,
    pub kills: usize,
    pub zombies: usize,
    pub joins: usize,
    pub broker_kills: usize,
    pub coordinator_losses: usize,
    pub leader_moves: usize,
    pub cuts: usize,
    /// Of each kind of silence between the processes and the brokers.
    pub silences: usize,
    pub predecessors: usize,
    /// Kills, each with a fault of another kind before it.
    pub mixed_kills: usize,
    /// While events come, and while none do.
    pub outages: &'static [Outage],
    pub silent_outages: &'static [Outage],
}

const SHORT: Size = Size {
    seed: 1,
    kills: 5,
    zombies: 2,
    joins: 3,
    broker_kills: 1,
    coordinator_losses: 1,
    leader_moves: 1,
    cuts: 6,
    silences: 1,
    predecessors: 2,
    mixed_kills: 6,
    outages: &[outage(AllBrokers, Stopped, 5), outage(AllBrokers, Killed, 40), outage(Coordinator, Killed, 25)],
    silent_outages: &[],
};

const fn outage(kind: Kind, how: How, seconds: u64) -> Outage {
    Outage { kind, how, seconds }
}

const EVERY_OUTAGE: [Outage; 12] = [
    outage(AllBrokers, Stopped, 5),
    outage(AllBrokers, Killed, 25),
    outage(AllBrokers, Stopped, 40),
    outage(AllBrokers, Killed, 120),
    outage(Coordinator, Stopped, 5),
    outage(Coordinator, Killed, 25),
    outage(Coordinator, Stopped, 40),
    outage(Coordinator, Killed, 120),
    outage(Leader, Stopped, 5),
    outage(Leader, Killed, 25),
    outage(Leader, Stopped, 40),
    outage(Leader, Killed, 120),
];

const LONG: Size = Size {
    seed: 1,
    kills: 30,
    zombies: 6,
    joins: 12,
    broker_kills: 4,
    coordinator_losses: 4,
    leader_moves: 6,
    cuts: 30,
    silences: 3,
    predecessors: 6,
    mixed_kills: 100,
    outages: &EVERY_OUTAGE,
    silent_outages: &EVERY_OUTAGE,
};

impl Size {
    /// What `CHAOS` and `CHAOS_SEED` ask for.
    ///
    /// # Panics
    /// When they ask for something else than there is: a long run must not turn out to have been a short one.
    pub fn chosen() -> Self {
        let size = match env::var("CHAOS").as_deref() {
            Err(env::VarError::NotPresent) | Ok("short") => SHORT,
            Ok("long") => LONG,
            other => panic!("CHAOS is short or long, not {other:?}"),
        };
        match env::var("CHAOS_SEED") {
            Ok(seed) => Self { seed: seed.parse().expect("CHAOS_SEED is a number"), ..size },
            Err(_) => size,
        }
    }
}
