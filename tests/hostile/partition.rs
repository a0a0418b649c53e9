//! A partition with the traffic of others, and harm spread evenly between its records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use duplex_collector::collector::{EndReason, Limits, Settings};
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::synth::{Event, Profile, Share, Traffic};
use duplex_collector::task::{CommitBatch, PartitionTask, Record};
use duplex_collector::time::Timestamp;

use crate::cases::Case;

pub const STATE_BYTES: usize = 64 << 20;

/// Later than any record.
pub const LATE: Timestamp = Timestamp(4_000_000_000_000);

/// As a worker does: so many records come in a commit interval, and so much makes it commit early.
const RECORDS_A_COMMIT: u64 = 20_000;
const PENDING_BYTES: usize = 16 << 20;

/// What came of a case.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    pub records: u64,
    /// Peak of the resident memory of the process, in bytes.
    pub memory_peak: u64,
    /// Peak of the state as the task counts it, in bytes.
    pub state_peak: u64,
    pub evicted: u64,
    pub truncated: u64,
    pub markers_evicted: u64,
    pub dead_letters: u64,
    /// Bundles of the well-behaved sessions, and how many are as without any harm.
    pub others: u64,
    pub others_equal: u64,
}

/// The bundles of the others, and what was counted.
#[derive(Default)]
struct Seen {
    bundles: BTreeMap<String, Vec<Vec<u8>>>,
    outcome: Outcome,
}

/// Plays a case.
pub fn run(case: &Case) -> Outcome {
    let others: Vec<Event> = Traffic::new(profile()).collect();
    let names: BTreeSet<&str> = others.iter().map(|event| event.session.as_str()).collect();
    let alone = play(case, &others, &names, false).bundles;
    let mut seen = play(case, &others, &names, true);
    seen.outcome.others = alone.len() as u64;
    seen.outcome.others_equal =
        alone.iter().filter(|(id, bundle)| seen.bundles.get(*id) == Some(bundle)).count() as u64;
    seen.outcome.memory_peak = memory("VmHWM");
    seen.outcome
}

fn profile() -> Profile {
    Profile {
        sessions: 48,
        concurrency: 12,
        payload_bytes: Some(48),
        reconnects: Share::percent(30),
        abandoned: Share::percent(10),
        errors: Share::percent(20),
        barge_ins: Share::percent(30),
        ..Profile::default()
    }
}

fn settings() -> Arc<Settings> {
    let limits = Limits { state_bytes: STATE_BYTES, session_bytes: 8 << 20, ..Limits::default() };
    Arc::new(Settings { limits, ..Settings::default() })
}

/// Records of the others have the same offsets with harm between them and without.
fn play(case: &Case, others: &[Event], names: &BTreeSet<&str>, with_harm: bool) -> Seen {
    let source = TopicPartition { topic: "duplex.events".into(), partition: Partition(0) };
    let mut task = PartitionTask::new(source, Offset(0), settings());
    let mut seen = Seen::default();
    let (mut harm, mut since_commit) = (0, 0);
    let (mut key, mut value) = (String::new(), String::new());
    for (event, nth) in others.iter().zip(1..) {
        task.process(&record(Offset(harm as i64 + nth - 1), event.at, event.session.as_str(), &event.value), LATE);
        let until = case.records * nth as u64 / others.len() as u64;
        if !with_harm {
            harm = until;
            continue;
        }
        while harm < until {
            key.clear();
            value.clear();
            (case.record)(harm, &mut key, &mut value);
            task.process(&record(Offset(harm as i64 + nth), event.at, &key, value.as_bytes()), LATE);
            harm += 1;
            since_commit += 1;
            seen.outcome.state_peak = seen.outcome.state_peak.max(task.state_size().bytes as u64);
            if since_commit >= RECORDS_A_COMMIT || task.pending_bytes() >= PENDING_BYTES {
                since_commit = 0;
                seen.take(task.prepare_commit(), names);
            }
        }
    }
    task.end_of_input();
    seen.take(task.prepare_commit(), names);
    seen
}

pub fn record<'a>(offset: Offset, at: Timestamp, key: &'a str, value: &'a [u8]) -> Record<'a> {
    let (partition, timestamp) = (Partition(0), Some(at));
    Record { partition, offset, timestamp, key: Some(key.as_bytes()), value: Some(value), headers: Vec::new() }
}

impl Seen {
    fn take(&mut self, batch: Option<CommitBatch>, names: &BTreeSet<&str>) {
        let Some(CommitBatch { bundles, counts, .. }) = batch else { return };
        let outcome = &mut self.outcome;
        outcome.records += counts.records;
        outcome.evicted += counts.sessions_finished.get(&EndReason::Evicted).copied().unwrap_or_default();
        outcome.truncated += counts.truncated;
        outcome.markers_evicted += counts.markers_evicted;
        outcome.dead_letters += counts.dead_letters.values().sum::<u64>();
        for bundle in bundles.into_iter().filter(|bundle| names.contains(bundle.session_id.as_str())) {
            // One that made room can come again, once its marker did too.
            self.bundles.entry(bundle.session_id.to_string()).or_default().push(bundle.json);
        }
    }
}

/// The resident memory of this process in bytes: now (`VmRSS`), or the largest so far (`VmHWM`).
pub fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("Linux tells it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

impl Outcome {
    pub const HEADER: &str =
        "   records  memory peak  state peak   evicted  truncated  markers evicted  dead letters  others equal";

    /// For [`FromStr`] to read.
    pub fn line(&self) -> String {
        let Self { records, memory_peak, state_peak, evicted, truncated, markers_evicted, dead_letters, .. } = *self;
        let (others, equal) = (self.others, self.others_equal);
        let all = [records, memory_peak, state_peak, evicted, truncated, markers_evicted, dead_letters, others, equal];
        all.map(|n| n.to_string()).join(" ")
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [records, memory_peak, state_peak, evicted, truncated, markers_evicted, dead_letters, others, others_equal] =
            numbers[..]
        else {
            return Err(line.to_owned());
        };
        Ok(Self {
            records,
            memory_peak,
            state_peak,
            evicted,
            truncated,
            markers_evicted,
            dead_letters,
            others,
            others_equal,
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
        let equal = format!("{} of {}", self.others_equal, self.others);
        write!(f, "{:>10} {:>12} {:>11}", self.records, mib(self.memory_peak), mib(self.state_peak))?;
        write!(f, " {:>9} {:>10} {:>16}", self.evicted, self.truncated, self.markers_evicted)?;
        write!(f, " {:>13} {:>13}", self.dead_letters, equal)
    }
}
