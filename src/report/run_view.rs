//! The run-level figures, fed with bundles: what the gauges, `/report`, the status page and the demo's table show.
//!
//! Holds samples, not bundles. The same bundles give the same figures, in whatever order they come: which runs and models are
//! told apart rests on their names and on when they were written, and what can't be told in one reading is read again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::names;
use super::ranks::Ranks;
use super::run::Run;
use super::status::{RunStatus, StatusQuery};
use super::summary::RunSummary;
use super::view::BundleView;
use crate::time::Timestamp;

/// The name of all models, or of the whole run, among those of single models and windows.
pub const ALL: &str = "all";

/// The model of sessions whose model found no room.
pub const OTHER: &str = "other";

/// The model of sessions that name none.
pub const UNKNOWN: &str = "unknown";

/// Series of all runs together that are shown.
const MAX_SERIES: usize = 20_000;

/// How many times the runs that are shown are held: a run that began earlier than it seemed at first makes room for another.
const HELD_FOR_SHOWN: usize = 2;

/// What is shown, and how much of it is kept: `[run]` of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewSettings {
    /// The run of sessions without a `run_id`.
    pub default_run_id: String,
    /// Rolling windows by event time: name and length. They end with the latest event while bundles come, and now once none
    /// has been written for longer than the shortest of them.
    pub windows: Vec<(String, Duration)>,
    /// Samples of a measure that are kept exactly; more are sketched.
    pub exact_samples: usize,
    /// Runs that are shown; those that began first leave, but for the default one.
    pub max_runs: usize,
    /// An event that is further ahead of its bundle's record moves no window: one wrong timestamp would empty them all.
    pub clock_tolerance: Duration,
}

impl ViewSettings {
    /// Shortest first.
    fn windows_by_length(&self) -> impl Iterator<Item = &(String, Duration)> {
        let mut windows: Vec<_> = self.windows.iter().collect();
        windows.sort_by_key(|(_, length)| *length);
        windows.into_iter()
    }

    fn shortest_window(&self) -> Duration {
        self.windows.iter().map(|(_, length)| *length).min().unwrap_or_default()
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
            clock_tolerance: Duration::from_secs(10),
        }
    }
}

/// The figures of every run seen on the bundles topic.
#[derive(Debug)]
pub struct RunView {
    settings: ViewSettings,
    ranks: Ranks,
    knew_ranks: bool,
    /// Those that come first. Each has all its sessions: one that left does not come back.
    runs: BTreeMap<Arc<str>, Run>,
    /// The last event of any run: where the windows end while traffic goes on.
    latest: Option<Timestamp>,
    /// When the last bundle was written. Its last event can be `session.idle_timeout` older and more.
    written: Option<Timestamp>,
    read: Read,
    current_at: Option<Timestamp>,
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
    pub fn new(mut settings: ViewSettings) -> Self {
        settings.default_run_id = names::shown(&settings.default_run_id).into_owned();
        let (ranks, runs) = (Ranks::default(), BTreeMap::new());
        let (latest, written, current_at) = (None, None, None);
        Self { settings, ranks, knew_ranks: false, runs, latest, written, read: Read::All, current_at, unreadable: 0 }
    }

    /// An empty view of a topic that is yet to be read: it shows nothing before [`Self::has_read_since`] and
    /// [`Self::has_read_all`] say what it may.
    #[must_use]
    pub fn unread(settings: ViewSettings) -> Self {
        Self { read: Read::Nothing, ..Self::new(settings) }
    }

    /// An empty view for the same topic read again, which knows from the start which runs come first.
    #[must_use]
    pub fn to_read_again(&self) -> Self {
        let mut again = Self { ranks: self.ranks.clone(), knew_ranks: true, ..Self::unread(self.settings.clone()) };
        let first = again.ranks.in_order().take(HELD_FOR_SHOWN * self.settings.max_runs);
        again.runs = first.map(|run| (Arc::clone(run), Run::default())).collect();
        again
    }

    /// Whether it knew from the start which runs come first.
    #[must_use]
    pub fn knew_ranks(&self) -> bool {
        self.knew_ranks
    }

    /// Whether a run that is to be shown left before it was known to be: only another reading of the topic has all of it.
    #[must_use]
    pub fn needs_another_reading(&self) -> bool {
        self.first().any(|run| !self.runs.contains_key(run))
    }

    /// The runs that are to be shown, as far as series are left for them.
    fn first(&self) -> impl Iterator<Item = &Arc<str>> {
        self.ranks.in_order().take(self.settings.max_runs)
    }

    /// When the bundles were written at the earliest that the rolling windows need, and as much again, should the latest event
    /// be a while ago.
    #[must_use]
    pub fn windows_since(settings: &ViewSettings, now: Timestamp) -> Timestamp {
        let longest = settings.windows.iter().map(|(_, length)| *length).max().unwrap_or_default();
        now - longest - longest - settings.clock_tolerance
    }

    /// Everything that was written at `since` or later has been taken: windows that do not reach back further are shown.
    pub fn has_read_since(&mut self, since: Timestamp) {
        self.read = Read::Since(since);
        self.runs.values_mut().for_each(Run::forget_summary);
    }

    /// The whole topic has been taken: everything is shown.
    pub fn has_read_all(&mut self) {
        if self.read != Read::All {
            self.read = Read::All;
            self.runs.values_mut().for_each(Run::forget_summary);
        }
    }

    /// The topic could be read at `now`.
    pub fn is_current_at(&mut self, now: Timestamp) {
        self.current_at = Some(now);
    }

    /// Takes one record of the bundles topic; one that is no bundle is counted and passed over. `written_at` is the record's
    /// own timestamp: what is believed of a bundle rests on the topic, not on when it is read. `now` says only which windows
    /// can't be asked for any more.
    pub fn observe(&mut self, bundle: &[u8], written_at: Timestamp, now: Timestamp) {
        let Some(bundle) = BundleView::parse(bundle) else {
            self.unreadable += 1;
            return;
        };
        let default = &self.settings.default_run_id;
        let named = bundle.session.run_id.as_deref().map_or_else(|| default.clone().into(), names::shown);
        // The run of sessions that name none goes on for ever: were it to leave, it would be for the runs of tests.
        let began = if named == *default { Timestamp(i64::MAX) } else { written_at };
        if let Some(new) = self.ranks.see(&named, began) {
            self.runs.insert(new, Run::default());
            self.let_last_run_leave();
        }
        let at = bundle.session.last_event_ms.filter(|at| *at <= written_at + self.settings.clock_tolerance);
        self.latest = self.latest.max(at);
        self.written = self.written.max(Some(written_at));
        let earliest_end = self.latest.map_or(now, |latest| latest.min(now));
        if let Some(run) = self.runs.get_mut(&*named) {
            run.add(&bundle, at, earliest_end, &self.settings);
        }
    }

    fn let_last_run_leave(&mut self) {
        if self.runs.len() > HELD_FOR_SHOWN * self.settings.max_runs
            && let Some(last) = self.runs.keys().max_by_key(|run| self.ranks.of(run)).cloned()
        {
            self.runs.remove(&last);
        }
    }

    /// The runs that are shown, the one that began last first.
    fn shown_runs(&mut self, shown: &Shown) -> Vec<Arc<str>> {
        let (mut names, mut series) = (Vec::new(), 0);
        for name in self.ranks.in_order().take(self.settings.max_runs) {
            if let Some(run) = self.runs.get_mut(name).filter(|run| !run.is_empty()) {
                series += run.summary(name, shown).series();
                if series > MAX_SERIES && !names.is_empty() {
                    break;
                }
                names.push(Arc::clone(name));
            }
        }
        names
    }

    /// The figures of every run as of `now`, by run id.
    pub fn summaries(&mut self, now: Timestamp) -> Vec<RunSummary> {
        let Some(shown) = self.shown(now) else { return Vec::new() };
        let mut names = self.shown_runs(&shown);
        names.sort_unstable();
        let summary = |name: &Arc<str>| Some(self.runs.get_mut(name)?.summary(name, &shown).clone());
        names.iter().filter_map(summary).collect()
    }

    /// The figures of one run as of `now`; `None` where it is not shown.
    pub fn summary(&mut self, run: &str, now: Timestamp) -> Option<RunSummary> {
        let (run, shown) = (names::shown(run), self.shown(now)?);
        let name = self.shown_runs(&shown).into_iter().find(|name| **name == *run)?;
        Some(self.runs.get_mut(&name)?.summary(&name, &shown).clone())
    }

    /// How many runs on the topic are not shown: others began later, or there are no more series for them. `None` before all
    /// of the topic has been read.
    pub fn runs_not_shown(&mut self, now: Timestamp) -> Option<usize> {
        let shown = self.shown(now).filter(|shown| shown.whole)?;
        Some(self.ranks.len() - self.shown_runs(&shown).len())
    }

    /// One run as of `now`, and which others there are.
    pub fn status(&mut self, query: &StatusQuery, now: Timestamp) -> RunStatus {
        let shown = self.shown(now);
        let mut runs = shown.as_ref().map(|shown| self.shown_runs(shown)).unwrap_or_default();
        runs.sort_by_key(|run| (Reverse(self.runs.get(run).and_then(|run| run.last_event)), Arc::clone(run)));
        let mut status = RunStatus {
            complete: self.read == Read::All,
            current_at_ms: self.current_at,
            runs_not_shown: self.runs_not_shown(now),
            runs,
            run: None,
            windows: self.settings.windows_by_length().map(|(name, _)| name.clone()).collect(),
            view: None,
            last_sessions: Vec::new(),
        };
        let asked = query.run.as_deref().map(names::shown);
        let asked = status.runs.iter().find(|run| asked.as_ref().is_none_or(|asked| **asked == ***run));
        if let Some((id, run)) = asked.and_then(|id| Some((id, self.runs.get_mut(id)?)))
            && let Some(shown) = &shown
        {
            let model = query.model.as_deref().map_or(ALL.into(), names::shown);
            let shortest = status.windows.first().map_or(ALL, String::as_str);
            let window = query.window.as_deref().unwrap_or(shortest).to_owned();
            status.run = Some(run.summary(id, shown).clone());
            status.view = run.part_status(&model, &window, shown);
            status.last_sessions = run.last_sessions(&model);
        }
        status
    }

    /// What may be shown; `None` before anything may.
    fn shown(&self, now: Timestamp) -> Option<Shown> {
        let Self { settings, latest, written, read, .. } = self;
        // A replica whose clock is ahead writes bundles of tomorrow: of when the last one was written they say nothing.
        let has_stopped = written.is_none_or(|written| {
            written > now + settings.clock_tolerance || now.since(written) > settings.shortest_window()
        });
        let end = latest.filter(|_| !has_stopped).map_or(now, |latest| latest.min(now));
        let reaches_back = |length: Duration| match *read {
            Read::Nothing => false,
            Read::Since(since) => end - length >= since,
            Read::All => true,
        };
        let windows = settings.windows.iter().map(|(name, length)| (name.clone(), reaches_back(*length)));
        (*read != Read::Nothing).then(|| Shown { whole: *read == Read::All, windows: windows.collect(), end })
    }

    /// Records that were no bundles.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}
