//! The thread that feeds the run view: first with what its windows need, then with the rest of the bundles topic, and with
//! what comes all the while. Reads it again where records that were counted are gone: samples can't be taken out.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use tracing::{info, warn};

use super::{Seldom, Service};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::exit::{Code, Failure, Outcome};
use crate::kafka::{BundleReader, BundleRecord, Gone};
use crate::report::{Parts, RunView};
use crate::time::{Clock, Timestamp};
use crate::worker::BrokerError;

/// How long one poll may wait.
const POLL: Duration = Duration::from_millis(200);
/// How long what is new may be waited for while there is more to read of what is old.
const SHORT_POLL: Duration = Duration::from_millis(50);
/// The pause after the topic was read, in times of how long that took: reading it again takes no more than a twentieth of a
/// core, however often records are deleted.
const REST: u32 = 20;
/// But no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// Starts the thread.
pub(super) fn spawn(service: &Service) -> Outcome<JoinHandle<()>> {
    let Service { config, clock, runs, health, shutdown, .. } = service;
    let mut feed = Feed::new(config.clone(), *clock, Arc::clone(runs)).map_err(|e| Code::Failed.because(e))?;
    let (clock, health, shutdown) = (*clock, health.clone(), shutdown.clone());
    let read = move || {
        let (mut warned, mut told) = (Seldom::default(), 0);
        while !shutdown.is_requested() {
            match feed.poll() {
                Ok(true) => health.run_view_caught_up(),
                Ok(false) => {}
                Err(e) => {
                    if !shutdown.is_requested() && warned.is_due(clock.monotonic()) {
                        warn!(cause = %e, "the bundles topic can't be read, run-level figures stand still");
                    }
                    thread::sleep(POLL);
                }
            }
            let unreadable = lock(&feed.runs).unreadable();
            if unreadable != told && warned.is_due(clock.monotonic()) {
                told = unreadable;
                warn!(records = unreadable, "records of the bundles topic are no bundles and in no figure");
            }
        }
    };
    let thread = thread::Builder::new().name("run-view".into()).spawn(read);
    thread.context("the run view's thread can't be started").map_err(Failure::from)
}

/// The bundles topic on its way into the run view.
///
/// ```text
/// Recent -> Earlier -> All <-> Again      Again: what was read is not what is on the topic any more
/// ```
struct Feed {
    config: Config,
    clock: SystemClock,
    runs: Arc<Mutex<RunView>>,
    parts: Parts,
    reader: BundleReader,
    progress: Progress,
    /// When the topic was begun to be read, and how long it took, by the monotonic clock.
    began: Duration,
    took: Duration,
}

enum Progress {
    /// The windows' part is being read: what was written since then.
    Recent(Timestamp),
    /// So is what is older.
    Earlier(Box<BundleReader>),
    All,
    /// All is read into another view, which takes the shown one's place once it has caught up.
    Again(Box<Again>),
}

/// Another reading of the topic, beside the one that is shown.
struct Again {
    reader: BundleReader,
    parts: Parts,
    view: RunView,
}

impl Feed {
    fn new(config: Config, clock: SystemClock, runs: Arc<Mutex<RunView>>) -> Result<Self, BrokerError> {
        let since = RunView::windows_since(&config.run, clock.now());
        let reader = BundleReader::since(&config.kafka, &config.topics, since)?;
        let (parts, progress, began) = (Parts::default(), Progress::Recent(since), clock.monotonic());
        Ok(Self { config, clock, runs, parts, reader, progress, began, took: Duration::ZERO })
    }

    /// Reads for a while; returns whether the whole topic has been read.
    fn poll(&mut self) -> Result<bool, BrokerError> {
        let read = self.read();
        if let Some(view) = self.view_to_read_into() {
            self.read_again(view)?;
        }
        read?;
        lock(&self.runs).is_current_at(self.clock.now());
        Ok(matches!(self.progress, Progress::All))
    }

    fn read(&mut self) -> Result<(), BrokerError> {
        let runs = Arc::clone(&self.runs);
        let parts = &mut self.parts;
        let now = self.clock.now();
        let observe = &mut |record: BundleRecord<'_>| take(record, parts, &mut lock(&runs), now);
        match &mut self.progress {
            Progress::Recent(since) => {
                self.reader.poll(POLL, observe)?;
                if self.reader.caught_up() {
                    lock(&runs).has_read_since(*since);
                    let earlier = self.reader.earlier(&self.config.kafka, &self.config.topics)?;
                    self.progress = Progress::Earlier(Box::new(earlier));
                }
            }
            Progress::Earlier(earlier) => {
                if !earlier.caught_up() {
                    self.reader.poll(SHORT_POLL, observe)?;
                    earlier.poll(POLL, observe)?;
                }
                if earlier.caught_up() {
                    lock(&runs).has_read_all();
                    self.has_read_all();
                }
            }
            Progress::All => self.reader.poll(POLL, observe)?,
            Progress::Again(again) => {
                let Again { reader, parts: its_parts, view } = &mut **again;
                // What is shown goes on meanwhile, but with nothing of another topic.
                if self.reader.gone() != Some(Gone::All) {
                    self.reader.poll(SHORT_POLL, observe)?;
                }
                reader.poll(POLL, &mut |record| take(record, its_parts, view, now))?;
                if reader.caught_up() {
                    view.has_read_all();
                    if view.needs_another_reading() && !view.knew_ranks() {
                        let view = view.to_read_again();
                        return self.read_again(view);
                    }
                    mem::swap(&mut *lock(&runs), view);
                    mem::swap(&mut self.reader, reader);
                    mem::swap(&mut self.parts, its_parts);
                    self.has_read_all();
                }
            }
        }
        Ok(())
    }

    /// Begins to read all of the topic into an empty view.
    fn read_again(&mut self, view: RunView) -> Result<(), BrokerError> {
        info!(gone = ?self.gone(), "the bundles topic is read again");
        let reader = BundleReader::new(&self.config.kafka, &self.config.topics)?;
        self.progress = Progress::Again(Box::new(Again { reader, parts: Parts::default(), view }));
        self.began = self.clock.monotonic();
        Ok(())
    }

    fn has_read_all(&mut self) {
        info!("the bundles topic has been read");
        self.progress = Progress::All;
        self.took = self.clock.monotonic().saturating_sub(self.began);
    }

    fn gone(&self) -> Option<Gone> {
        match &self.progress {
            Progress::Earlier(earlier) => self.reader.gone().or(earlier.gone()),
            Progress::Again(again) => again.reader.gone(),
            _ => self.reader.gone(),
        }
    }

    /// An empty view, where the topic is to be read again, and now.
    fn view_to_read_into(&self) -> Option<RunView> {
        let has_rested = || {
            let rest = LONGEST_REST.min(REST * self.took);
            self.clock.monotonic().saturating_sub(self.began) >= self.took + rest
        };
        match (self.gone(), &self.progress) {
            (Some(Gone::All), _) => Some(RunView::unread(self.config.run.clone())),
            (Some(Gone::Some), Progress::All) if has_rested() => Some(RunView::unread(self.config.run.clone())),
            (None, Progress::All) => {
                let runs = lock(&self.runs);
                // The first time it knows no ranks before; from then on it is a matter of clocks that differ.
                let is_due = runs.needs_another_reading() && (!runs.knew_ranks() || has_rested());
                is_due.then(|| runs.to_read_again())
            }
            _ => None,
        }
    }
}

/// Takes a record into a view, once its bundle is whole.
fn take(record: BundleRecord<'_>, parts: &mut Parts, view: &mut RunView, now: Timestamp) {
    if let Some((bundle, written_at)) = parts.take(record.key, record.value, record.written_at) {
        view.observe(&bundle, written_at, now);
    }
}

/// Locks the run view. One that panicked while it held the lock can have left out samples, not more.
fn lock(runs: &Mutex<RunView>) -> MutexGuard<'_, RunView> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}
