//! What a seed has in store: the shape of the cluster, and which mishaps come how often.
//!
//! Each seed has its own choice of mishaps and of their rates, so that some are met alone and some together.

use crate::random::Random;

/// Something that goes wrong, or that makes things hard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// A process dies between two rounds.
    Crash,
    /// A process dies at a call, before its effect or after it.
    CrashAtCall,
    /// The commit was done, nobody heard of it.
    LostAnswer,
    /// The commit never came to the broker.
    LostRequest,
    /// A transaction could not be delivered and has to be aborted.
    FailedDelivery,
    /// A process stands still in the middle of a call, and the others go on.
    StandstillAtCall,
    /// A process stands still between two rounds, for longer than its group waits.
    Freeze,
    /// The slot of a process that stands still is given to another: a zombie wakes up later.
    Replacement,
    /// Partitions change hands without need.
    Rebalance,
    /// A process is told to stop and drains.
    Drain,
    /// Another process joins.
    Join,
    /// The broker does not answer a process for a while.
    Outage,
    /// Another producer leaves a transaction open on the events topic.
    OpenTransaction,
    /// A process' wall clock jumps.
    ClockJump,
    Compaction,
    /// What was read and committed of the events topic is deleted.
    Retention,
    /// Reads of the changelog bring little at a time, or fail.
    SlowRestore,
    /// Markers come long after the answer.
    SlowMarkers,
    /// Records are fetched late.
    SlowFetch,
    /// A record is delivered again.
    Redelivery,
    /// A record of a paused partition is delivered.
    SlippedRecord,
    /// Committed offsets can't be told.
    NoOffsets,
    /// Offsets that were committed are not replicated yet, and not told.
    OldOffsets,
    /// A replica that lacks tombstones leads a partition of the changelog.
    LaggingLeader,
    /// Dead letters, tombstones and gaps in the offsets.
    Noise,
    /// A producer's clock is ahead.
    SkewedProducer,
    /// A record's timestamp is older than its arrival.
    DelayedRecord,
    /// A record's timestamp is far ahead.
    WildTimestamp,
    /// A session's clock is far ahead or behind, runs fast, or jumps from one of its events to the next.
    WrongClock,
}

use Mishap::*;

/// Every mishap: its name in the summary, and its rate in a million opportunities where a seed has it.
const MISHAPS: [(Mishap, &str, u64); 29] = [
    (Crash, "crash", 12_000),
    (CrashAtCall, "crash at a call", 5_000),
    (LostAnswer, "lost answer of a commit", 40_000),
    (LostRequest, "lost request of a commit", 40_000),
    (FailedDelivery, "failed delivery", 40_000),
    (StandstillAtCall, "standstill at a call", 2_500),
    (Freeze, "freeze", 6_000),
    (Replacement, "replacement of a frozen process", 500_000),
    (Rebalance, "rebalance", 12_000),
    (Drain, "drain", 6_000),
    (Join, "join", 8_000),
    (Outage, "outage", 6_000),
    (OpenTransaction, "open transaction of another", 3_000),
    (ClockJump, "clock jump", 6_000),
    (Compaction, "compaction", 60_000),
    (Retention, "retention", 60_000),
    (SlowRestore, "slow restore", 600_000),
    (SlowMarkers, "slow markers", 800_000),
    (SlowFetch, "slow fetch", 20_000),
    (Redelivery, "redelivery", 30_000),
    (SlippedRecord, "slipped record", 200_000),
    (NoOffsets, "no offsets", 200_000),
    (OldOffsets, "old offsets", 3_000),
    (LaggingLeader, "lagging leader", 6_000),
    (Noise, "noise", 1_000_000),
    (SkewedProducer, "skewed producer", 200_000),
    (DelayedRecord, "delayed record", 60_000),
    (WildTimestamp, "wild timestamp", 10_000),
    (WrongClock, "wrong clock", 150_000),
];

/// How often each mishap happened.
pub type Happened = [u64; MISHAPS.len()];

/// The names, in the order of [`Happened`].
pub fn names() -> impl Iterator<Item = &'static str> {
    MISHAPS.iter().map(|(_, name, _)| *name)
}

#[derive(Debug)]
pub struct Plan {
    pub partitions: i32,
    pub sessions: u64,
    pub processes: usize,
    pub cooperative: bool,
    /// Each record of the events topic is a transaction of its own, with its marker.
    pub transactional_events: bool,
    /// How long things go wrong, in milliseconds.
    pub trouble: u64,
    /// From then on nothing goes wrong any more.
    pub is_calm: bool,
    /// Records are stamped so long before they come, in milliseconds. What is old can be believed, be it of a wrong clock.
    pub age: u64,
    /// The furthest that a wall clock is behind or ahead, in milliseconds.
    pub most_off: u64,
    rates: [u64; MISHAPS.len()],
    pub happened: Happened,
    random: Random,
}

impl Plan {
    /// Of a seed, and nothing goes wrong.
    pub fn quiet(seed: u64) -> Self {
        Self { rates: [0; MISHAPS.len()], most_off: 0, ..Self::new(seed) }
    }

    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let mut rates = [0; MISHAPS.len()];
        for (rate, (_, _, usual)) in rates.iter_mut().zip(MISHAPS) {
            if random.one_in(2) {
                *rate = usual * random.between(1, 8) / 4;
            }
        }
        Self {
            partitions: random.between(1, 4) as i32,
            sessions: random.between(6, 30),
            processes: random.between(1, 3) as usize,
            cooperative: random.one_in(2),
            transactional_events: random.one_in(3),
            trouble: random.between(60_000, 180_000),
            is_calm: false,
            age: if random.one_in(2) { 86_400_000 } else { 0 },
            most_off: match rates[ClockJump as usize] {
                0 => 0,
                _ if random.one_in(4) => 200_000,
                _ => 50_000,
            },
            rates,
            happened: Happened::default(),
            random,
        }
    }

    /// Whether it happens now.
    pub fn draws(&mut self, mishap: Mishap) -> bool {
        let place = mishap as usize;
        let happens = !self.is_calm && self.rates[place] > 0 && self.random.below(1_000_000) < self.rates[place];
        self.happened[place] += u64::from(happens);
        happens
    }
}
