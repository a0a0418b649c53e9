//! The thread that feeds the run view: first with what its windows need, then with the rest of the bundles topic, and with
//! what comes all the while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use tracing::{info, warn};

use super::{Seldom, Service};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::exit::{Code, Failure, Outcome};
use crate::kafka::BundleReader;
use crate::report::{Parts, RunView};
use crate::time::{Clock, Timestamp};
use crate::worker::BrokerError;

/// How long one poll may wait.
const POLL: Duration = Duration::from_millis(200);
/// How long what is new may be waited for while there is more to read of what is old.
const SHORT_POLL: Duration = Duration::from_millis(50);

/// Starts the thread.
pub(super) fn spawn(service: &Service) -> Outcome<JoinHandle<()>> {
    let Service { config, clock, runs, health, shutdown, .. } = service;
    let mut feed = Feed::new(config.clone(), *clock, Arc::clone(runs)).map_err(|e| Code::Failed.because(e))?;
    let (clock, health, shutdown) = (*clock, health.clone(), shutdown.clone());
    let read = move || {
        let mut warned = Seldom::default();
        while !shutdown.is_requested() {
            match feed.poll() {
                Ok(true) => health.run_view_caught_up(),
                Ok(false) => {}
                Err(e) => {
                    if warned.is_due(clock.monotonic()) {
                        warn!(cause = %e, "the bundles topic can't be read, run-level figures stand still");
                    }
                    thread::sleep(POLL);
                }
            }
        }
    };
    let thread = thread::Builder::new().name("run-view".into()).spawn(read);
    thread.context("the run view's thread can't be started").map_err(Failure::from)
}

/// The bundles topic on its way into the run view.
struct Feed {
    config: Config,
    clock: SystemClock,
    runs: Arc<Mutex<RunView>>,
    parts: Parts,
    /// What `reader` begins with.
    since: Timestamp,
    reader: BundleReader,
    progress: Progress,
}

enum Progress {
    /// The windows' part is being read.
    Recent,
    /// So is what is older.
    Earlier(Box<BundleReader>),
    All,
}

impl Feed {
    fn new(config: Config, clock: SystemClock, runs: Arc<Mutex<RunView>>) -> Result<Self, BrokerError> {
        let since = RunView::windows_since(&config.run, clock.now());
        let reader = BundleReader::since(&config.kafka, &config.topics, since)?;
        Ok(Self { config, clock, runs, parts: Parts::default(), since, reader, progress: Progress::Recent })
    }

    /// Reads for a while; returns whether the whole topic has been read.
    fn poll(&mut self) -> Result<bool, BrokerError> {
        let (runs, clock) = (Arc::clone(&self.runs), self.clock);
        let parts = &mut self.parts;
        let observe = &mut |key: &[u8], record: &[u8]| {
            if let Some(bundle) = parts.take(key, record) {
                lock(&runs).observe(&bundle, clock.now());
            }
        };
        match &mut self.progress {
            Progress::Recent => {
                self.reader.poll(POLL, observe)?;
                if self.reader.caught_up() {
                    lock(&runs).has_read_since(self.since);
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
                    info!("the bundles topic has been read");
                    self.progress = Progress::All;
                }
            }
            Progress::All => {
                self.reader.poll(POLL, observe)?;
                lock(&runs).has_read_all();
            }
        }
        Ok(matches!(self.progress, Progress::All))
    }
}

/// Locks the run view. One that panicked while it held the lock can have left out samples, not more.
fn lock(runs: &Mutex<RunView>) -> MutexGuard<'_, RunView> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}
