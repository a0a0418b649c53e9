//! How many faults: few for every change, many for a release.

use std::env;

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
};

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
