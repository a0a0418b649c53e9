//! Traffic that lasts as long as the faults do: thousands of sessions at once, and each of them is closed in the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duplex_collector::cli::capture::CapturedRecord;
use duplex_collector::ids::{Offset, Partition};
use duplex_collector::synth::{Event, Profile, Share, Traffic};

use crate::START;
use crate::service::Deployment;
use crate::topics::{send, writer};
use crate::wait::PATIENCE;

/// Sessions that are open while faults happen, at least.
pub const OPEN: usize = 2_000;
/// Faults may begin with some more: their number goes up and down.
const FULL: usize = 2_100;
/// Sessions at once. Between two of them a place is free for a moment, so they are some more.
const PLACES: usize = 2_400;
/// Events a second while faults happen: some thirty sessions end in it.
const PACE: f64 = 1_000.0;

/// The state that the producer's thread and the test share.
#[derive(Default)]
pub struct Flow {
    open: AtomicUsize,
    /// Open at once, the least since faults began.
    fewest: AtomicUsize,
    ending: AtomicBool,
}

/// What was sent.
pub struct Sent {
    pub sessions: BTreeSet<String>,
    pub records: usize,
}

impl Flow {
    /// Whether faults may begin.
    pub fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= FULL
    }

    pub fn faults_begin(&self) {
        self.fewest.store(usize::MAX, Ordering::Relaxed);
    }

    /// Sessions that were open at once ever since the faults began. No new session begins from now on.
    pub fn faults_end(&self) -> usize {
        let fewest = self.fewest.load(Ordering::Relaxed);
        self.ending.store(true, Ordering::Relaxed);
        fewest
    }

    /// Sends until the faults end, then what the open sessions still have, at once.
    ///
    /// # Panics
    /// When a record can't be delivered.
    pub fn send(&self, deployment: &Deployment, seed: u64) -> Sent {
        let mut writer = writer(deployment);
        let mut traffic = Traffic::new(profile(seed));
        let mut sent = Sent { sessions: BTreeSet::new(), records: 0 };
        let mut open = BTreeSet::new();
        let mut paced_since = None;
        loop {
            let ended_before = ended(&traffic);
            let event = traffic.next().expect("the traffic has no end");
            let is_last = ended(&traffic) > ended_before;
            let ending = self.ending.load(Ordering::Relaxed);
            if ending && !open.contains(event.session.as_str()) {
                if open.is_empty() {
                    break;
                }
                // A session that would begin now, or an event of one that was not begun.
                continue;
            }
            send(&mut writer, deployment, &record(&event));
            sent.records += 1;
            if is_last {
                open.remove(event.session.as_str());
            } else if open.insert(event.session.as_str().to_owned()) {
                sent.sessions.insert(event.session.as_str().to_owned());
            }
            self.open.store(open.len(), Ordering::Relaxed);
            self.fewest.fetch_min(open.len(), Ordering::Relaxed);
            if !ending && self.is_full() {
                let (since, first) = *paced_since.get_or_insert((Instant::now(), sent.records));
                wait_for(since, sent.records - first);
            }
        }
        writer.flush(PATIENCE).expect("the records are delivered");
        sent
    }
}

/// Waits until it is time for the nth event.
fn wait_for(since: Instant, nth: usize) {
    let ahead = Duration::from_secs_f64(nth as f64 / PACE).saturating_sub(since.elapsed());
    if ahead > Duration::from_millis(5) {
        thread::sleep(ahead);
    }
}

fn ended(traffic: &Traffic) -> u64 {
    traffic.counts().closed + traffic.counts().expired
}

fn profile(seed: u64) -> Profile {
    Profile {
        seed,
        sessions: u64::MAX,
        start: START,
        concurrency: PLACES,
        // As long as a session, so that some end all the time.
        ramp: Duration::from_secs(12),
        packet_ms: 1_000..=1_000,
        payload_bytes: Some(12),
        turns: 1..=1,
        abandoned: Share::NONE,
        ..Profile::default()
    }
}

fn record(event: &Event) -> CapturedRecord {
    CapturedRecord {
        topic: None,
        partition: Partition(0),
        offset: Offset(0),
        timestamp: Some(event.at),
        key: Some(event.session.as_str().as_bytes().to_vec()),
        value: Some(event.value.clone()),
        headers: Vec::new(),
    }
}
