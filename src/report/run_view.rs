//! The run-level figures, fed with bundles: what the gauges, `/report`, the status page and the demo's table show.
//!
//! Holds samples, not bundles. The same bundles give the same figures, in whatever order they come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::run::Run;
use super::status::{RunStatus, StatusQuery};
use super::summary::RunSummary;
use super::view::BundleView;
use crate::time::Timestamp;

/// The name of all models, or of the whole run, among those of single models and windows.
pub const ALL: &str = "all";

/// The run of sessions whose run found no room, and the model of sessions whose model did not.
pub const OTHER: &str = "other";

/// The model of sessions that name none.
pub const UNKNOWN: &str = "unknown";

/// How many runs are held while the topic is read for the first time, before the oldest leave.
const MAX_RUNS_READING: usize = 1_000;

/// Runs that left and are remembered, so that a straggler does not bring one back with a part of its sessions.
const MAX_GONE: usize = 100_000;

/// An event that is further ahead of its bundle's record moves no window: one wrong stamp would empty them all.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// What is shown, and how much of it is kept: `[run]` of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewSettings {
    /// The run of sessions without a `run_id`.
    pub default_run_id: String,
    /// Rolling windows by event time: name and length.
    pub windows: Vec<(String, Duration)>,
    /// Samples of a measure that are kept exactly; more are sketched.
    pub exact_samples: usize,
    /// Runs that are shown; those whose last event is oldest leave.
    pub max_runs: usize,
}

impl ViewSettings {
    /// Shortest first.
    fn windows_by_length(&self) -> impl Iterator<Item = &(String, Duration)> {
        let mut windows: Vec<_> = self.windows.iter().collect();
        windows.sort_by_key(|(_, length)| *length);
        windows.into_iter()
    }
}

impl Default for ViewSettings {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        Self {
            default_run_id: "default".into(),
            windows: vec![("5m".into(), minutes(5)), ("1h".into(), minutes(60))],
            exact_samples: 1_000_000,
            max_runs: 100,
        }
    }
}

/// The figures of every run seen on the bundles topic.
#[derive(Debug)]
pub struct RunView {
    settings: ViewSettings,
    runs: BTreeMap<String, Run>,
    gone: BTreeSet<String>,
    /// The last event of any run: where the windows end.
    latest: Option<Timestamp>,
    read: Read,
    unreadable: u64,
}

/// Which parts of a run may be shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub whole: bool,
    /// By the settings' windows.
    pub windows: Vec<(String, bool)>,
    /// Where the windows end.
    pub end: Timestamp,
}

/// What of the topic has been read to its end: figures of less than what they are of are not shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Read {
    Nothing,
    /// What was written at this time or later.
    Since(Timestamp),
    All,
}

impl RunView {
    /// An empty view that shows whatever it is fed with.
    #[must_use]
    pub fn new(settings: ViewSettings) -> Self {
        let (runs, gone) = (BTreeMap::new(), BTreeSet::new());
        Self { settings, runs, gone, latest: None, read: Read::All, unreadable: 0 }
    }

    /// An empty view of a topic that is yet to be read: it shows nothing before [`Self::has_read_since`] and
    /// [`Self::has_read_all`] say what it may.
    #[must_use]
    pub fn unread(settings: ViewSettings) -> Self {
        Self { read: Read::Nothing, ..Self::new(settings) }
    }

    /// When the bundles were written at the earliest that the rolling windows need, and as much again, should the traffic
    /// have ended a while ago.
    #[must_use]
    pub fn windows_since(settings: &ViewSettings, now: Timestamp) -> Timestamp {
        let longest = settings.windows.iter().map(|(_, length)| *length).max().unwrap_or_default();
        now - longest - longest - CLOCK_TOLERANCE
    }

    /// Everything that was written at `since` or later has been taken: windows that do not reach back further are shown.
    pub fn has_read_since(&mut self, since: Timestamp) {
        self.read = Read::Since(since);
        self.runs.values_mut().for_each(Run::forget_summary);
    }

    /// The whole topic has been taken: everything is shown. To be said again as more is read, for from now on the runs
    /// beyond the bound leave, those whose last event is oldest first; before, what is old in one partition could go on in
    /// another.
    pub fn has_read_all(&mut self) {
        if self.read != Read::All {
            self.read = Read::All;
            self.runs.values_mut().for_each(Run::forget_summary);
        }
        self.let_old_runs_leave();
    }

    /// Takes one record of the bundles topic; one that is no bundle is counted and passed over. `written_at` is the record's
    /// own timestamp: what is believed of a bundle rests on the topic, not on when it is read.
    pub fn observe(&mut self, bundle: &[u8], written_at: Timestamp) {
        let Some(bundle) = BundleView::parse(bundle) else {
            self.unreadable += 1;
            return;
        };
        let named = bundle.session.run_id.as_deref().unwrap_or(&self.settings.default_run_id);
        let has_room = self.runs.len() < MAX_RUNS_READING || self.runs.contains_key(named);
        let run_id = if has_room && !self.gone.contains(named) { named } else { OTHER };
        let at = bundle.session.last_event_ms.filter(|at| *at <= written_at + CLOCK_TOLERANCE);
        let run = self.runs.entry(run_id.to_owned()).or_default();
        self.latest = self.latest.max(at);
        run.add(&bundle, at, self.latest, &self.settings);
    }

    fn let_old_runs_leave(&mut self) {
        while self.runs.len() > self.settings.max_runs {
            let oldest = self.runs.iter().min_by_key(|(id, run)| (run.last_event, *id)).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { return };
            self.runs.remove(&oldest);
            if oldest != OTHER && self.gone.len() < MAX_GONE {
                self.gone.insert(oldest);
            }
        }
    }

    /// The figures of every run, by run id.
    pub fn summaries(&mut self) -> Vec<RunSummary> {
        let Some(shown) = self.shown() else { return Vec::new() };
        self.runs.iter_mut().map(|(run_id, run)| run.summary(run_id, &shown)).collect()
    }

    /// One run, and which others there are.
    pub fn status(&mut self, query: &StatusQuery) -> RunStatus {
        let shown = self.shown();
        let mut runs: Vec<_> = self.runs.iter().map(|(id, run)| (Reverse(run.last_event), id.clone())).collect();
        runs.sort();
        let mut status = RunStatus {
            complete: self.read == Read::All,
            runs: runs.into_iter().map(|(_, id)| id).collect(),
            run: None,
            windows: self.settings.windows_by_length().map(|(name, _)| name.clone()).collect(),
            view: None,
            last_sessions: Vec::new(),
        };
        let asked = query.run.as_ref().or(status.runs.first());
        if let Some((id, run)) = asked.and_then(|id| Some((id, self.runs.get_mut(id)?)))
            && let Some(shown) = &shown
        {
            let model = query.model.as_deref().unwrap_or(ALL);
            let window = query.window.as_deref().unwrap_or(ALL);
            status.run = Some(run.summary(id, shown));
            status.view = run.part_status(model, window, shown);
            status.last_sessions = run.last_sessions(model);
        }
        status
    }

    /// What may be shown; `None` before anything may.
    fn shown(&self) -> Option<Shown> {
        let Self { settings, latest, read, .. } = self;
        let reaches_back = |length: Duration| match *read {
            Read::Nothing => false,
            Read::Since(since) => latest.is_some_and(|latest| latest - length >= since),
            Read::All => true,
        };
        let windows = settings.windows.iter().map(|(name, length)| (name.clone(), reaches_back(*length)));
        let end = latest.unwrap_or_default();
        (*read != Read::Nothing).then(|| Shown { whole: *read == Read::All, windows: windows.collect(), end })
    }

    /// Records that were no bundles.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}
