//! The run-level figures, fed with bundles: what the gauges, `/report`, the status page and the demo's table show.
//!
//! Holds samples, not bundles. The same bundles give the same figures, in whatever order they come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::rolling::Rolling;
use super::summary::{Part, RunSummary};
use super::tally::Tally;
use super::view::BundleView;
use crate::time::Timestamp;

/// The name of all models, or of the whole run, among those of single models and windows.
pub const ALL: &str = "all";

/// The run of sessions whose run found no room, and the model of sessions whose model did not.
pub const OTHER: &str = "other";

/// The model of sessions that name none.
pub const UNKNOWN: &str = "unknown";

/// How many models of a run are told apart.
const MAX_MODELS: usize = 20;

/// How many runs are held while the topic is read for the first time, before the oldest leave.
const MAX_RUNS_READING: usize = 1_000;

/// Runs that left and are remembered, so that a straggler does not bring one back with a part of its sessions.
const MAX_GONE: usize = 100_000;

/// An event that is further ahead of the wall clock moves no window: one wrong stamp would empty them all.
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
    unreadable: u64,
}

#[derive(Debug, Default)]
struct Run {
    models: BTreeMap<String, Model>,
    last_event: Option<Timestamp>,
    /// Its summary, until a bundle or the windows' end moves.
    cached: Option<(Vec<i64>, RunSummary)>,
}

#[derive(Debug)]
struct Model {
    whole: Tally,
    /// By the settings' windows.
    windows: Vec<Rolling>,
}

impl RunView {
    /// An empty view.
    #[must_use]
    pub fn new(settings: ViewSettings) -> Self {
        Self { settings, runs: BTreeMap::new(), gone: BTreeSet::new(), latest: None, unreadable: 0 }
    }

    /// Takes one record of the bundles topic; one that is no bundle is counted and passed over. `wall` is the wall clock.
    pub fn observe(&mut self, bundle: &[u8], wall: Timestamp) {
        let Some(bundle) = BundleView::parse(bundle) else {
            self.unreadable += 1;
            return;
        };
        let named = bundle.session.run_id.as_deref().unwrap_or(&self.settings.default_run_id);
        let has_room = self.runs.len() < MAX_RUNS_READING || self.runs.contains_key(named);
        let run_id = if has_room && !self.gone.contains(named) { named } else { OTHER };
        let at = bundle.session.last_event_ms.filter(|at| *at <= wall + CLOCK_TOLERANCE);
        let run = self.runs.entry(run_id.to_owned()).or_default();
        run.cached = None;
        run.last_event = run.last_event.max(at);
        self.latest = self.latest.max(at);
        let model = run.model(bundle.session.model.as_deref(), &self.settings);
        model.whole.add(&bundle);
        if let Some(at) = at {
            // What is too old for a window is let go when that is next looked at.
            model.windows.iter_mut().for_each(|window| window.at(at).add(&bundle));
        }
    }

    /// Lets the runs beyond the bound leave, those whose last event is oldest first. To be called once the topic was
    /// read: before that, what is old in one partition may go on in another.
    pub fn let_old_runs_leave(&mut self) {
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
        let (latest, settings) = (self.latest, &self.settings);
        self.runs.iter_mut().map(|(run_id, run)| run.summary(run_id, latest, settings)).collect()
    }

    /// Records that were no bundles.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
}

impl Run {
    fn model(&mut self, named: Option<&str>, settings: &ViewSettings) -> &mut Model {
        let has_room = |name: &str| self.models.len() < MAX_MODELS || self.models.contains_key(name);
        let name = match named.unwrap_or(UNKNOWN) {
            ALL | OTHER => OTHER,
            name if has_room(name) => name,
            _ => OTHER,
        };
        self.models.entry(name.to_owned()).or_insert_with(|| Model {
            whole: Tally::bounded(settings.exact_samples),
            windows: settings.windows.iter().map(|(_, length)| Rolling::new(*length, settings.exact_samples)).collect(),
        })
    }

    fn summary(&mut self, run_id: &str, latest: Option<Timestamp>, settings: &ViewSettings) -> RunSummary {
        let ends = self.window_ends(latest);
        if let Some((_, summary)) = self.cached.as_ref().filter(|(at, _)| *at == ends) {
            return summary.clone();
        }
        let whole = self.models.iter_mut().map(|(name, model)| (name.as_str(), &mut model.whole)).collect();
        let mut parts = parts_of(whole, ALL);
        for (index, (window, _)) in settings.windows.iter().enumerate() {
            let Some(latest) = latest else { break };
            let until_now = |(name, model): (_, &mut Model)| (name, model.windows[index].until(latest));
            let mut tallies: Vec<(&String, Tally)> = self.models.iter_mut().map(until_now).collect();
            let tallies = tallies.iter_mut().map(|(name, tally)| (name.as_str(), tally)).collect();
            parts.extend(parts_of(tallies, window));
        }
        let summary = RunSummary::of(run_id, self.last_event, parts);
        self.cached = Some((ends, summary.clone()));
        summary
    }

    /// The slot in which each window ends; all models have the same.
    fn window_ends(&self, latest: Option<Timestamp>) -> Vec<i64> {
        let windows = self.models.values().next().map_or(&[][..], |model| &model.windows);
        latest.map(|latest| windows.iter().map(|window| window.slot(latest)).collect()).unwrap_or_default()
    }
}

/// The figures of all models together, then of each; none where there is no session.
fn parts_of(mut tallies: Vec<(&str, &mut Tally)>, window: &str) -> Vec<Part> {
    tallies.retain(|(_, tally)| !tally.sessions.is_empty());
    let mut parts: Vec<_> = tallies.iter_mut().map(|(model, tally)| Part::of(model, window, tally)).collect();
    let together = match &tallies[..] {
        [] => return parts,
        // Nearly always: spares a copy of all samples.
        [_] => Part { model: ALL.to_owned(), ..parts[0].clone() },
        [(_, first), others @ ..] => {
            let mut all = (**first).clone();
            others.iter().for_each(|(_, tally)| all.merge(tally));
            Part::of(ALL, window, &mut all)
        }
    };
    parts.insert(0, together);
    parts
}
