//! One run: its models, their windows, and the figures of each and of all.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::finished::{FinishedSession, LastSessions};
use super::names;
use super::rolling::Rolling;
use super::run_view::{ALL, OTHER, Shown, UNKNOWN, ViewSettings};
use super::status::{PartStatus, Slot, shapes_of};
use super::summary::{Part, RunSummary};
use super::tally::Tally;
use super::view::BundleView;
use crate::time::Timestamp;

/// How many models of a run are told apart: those whose names are smallest, so that it is the same whichever came first.
const MAX_MODELS: usize = 20;

/// What is kept of a run.
#[derive(Debug, Default)]
pub(super) struct Run {
    models: BTreeMap<String, Model>,
    pub last_event: Option<Timestamp>,
    /// Its summary, until a bundle comes or the end of a window moves that is not empty.
    cached: Option<(Vec<Option<RangeInclusive<i64>>>, RunSummary)>,
}

#[derive(Debug)]
struct Model {
    whole: Tally,
    /// By the settings' windows.
    windows: Vec<Rolling>,
    last: LastSessions,
}

impl Run {
    /// Takes a finished session. `at` is its last event, where that can be right; no window will end before `earliest_end`.
    pub fn add(
        &mut self,
        bundle: &BundleView<'_>,
        at: Option<Timestamp>,
        earliest_end: Timestamp,
        settings: &ViewSettings,
    ) {
        self.forget_summary();
        self.last_event = self.last_event.max(at);
        let model = self.model(bundle.session.model.as_deref(), settings);
        model.whole.add(bundle);
        model.last.add(bundle, at);
        if let Some(at) = at {
            let slots = model.windows.iter_mut().filter_map(|window| window.at(at, earliest_end));
            slots.for_each(|slot| slot.add(bundle));
        }
    }

    /// Whether it has no session.
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Makes the next summary anew.
    pub fn forget_summary(&mut self) {
        self.cached = None;
    }

    fn model(&mut self, named: Option<&str>, settings: &ViewSettings) -> &mut Model {
        let name = names::shown(named.unwrap_or(UNKNOWN));
        let mut name = if name == ALL { OTHER } else { &*name };
        if name != OTHER && !self.models.contains_key(name) {
            let told_apart = self.models.keys().filter(|name| *name != OTHER);
            if told_apart.clone().count() == MAX_MODELS {
                let last = told_apart.max().cloned().expect("there are so many");
                if name > last.as_str() {
                    name = OTHER;
                } else if let Some(displaced) = self.models.remove(&last) {
                    self.entry(OTHER, settings).merge(displaced);
                }
            }
        }
        self.entry(name, settings)
    }

    fn entry(&mut self, name: &str, settings: &ViewSettings) -> &mut Model {
        self.models.entry(name.to_owned()).or_insert_with(|| Model {
            whole: Tally::bounded(settings.exact_samples),
            windows: settings
                .windows
                .iter()
                .map(|(_, length)| Rolling::new(*length, settings.exact_samples, settings.clock_tolerance))
                .collect(),
            last: LastSessions::default(),
        })
    }

    /// The models that one name stands for.
    fn models_of(&mut self, model: &str) -> impl Iterator<Item = &mut Model> {
        self.models.iter_mut().filter(move |(name, _)| model == ALL || model == *name).map(|(_, model)| model)
    }

    /// The sessions whose last event is latest, of a model or of all.
    pub fn last_sessions(&mut self, model: &str) -> Vec<FinishedSession> {
        LastSessions::of_all(self.models_of(model).map(|model| &model.last))
    }

    /// How the figures of a model, or of all, came about in a window or the whole run; `None` where that is not shown.
    pub fn part_status(&mut self, model: &str, window: &str, shown: &Shown) -> Option<PartStatus> {
        let windows = shown.windows.iter().zip(0..).filter(|((_, is_shown), _)| *is_shown);
        let slot_ms = |index: usize| self.models.values().next().map(|model| model.windows[index].slot_ms());
        let (_, index) = match window {
            ALL => windows.max_by_key(|(_, index)| slot_ms(*index)).filter(|_| shown.whole)?,
            _ => windows.into_iter().find(|((name, _), _)| name == window)?,
        };
        let slot_ms = slot_ms(index)?;
        let mut slots: BTreeMap<Timestamp, Vec<&mut Tally>> = BTreeMap::new();
        for (start, tally) in self.models_of(model).flat_map(|model| model.windows[index].slots_until(shown.end)) {
            slots.entry(start).or_default().push(tally);
        }
        let shapes = match window {
            ALL => None,
            _ => Some(shapes_of(slots.values().flatten().map(|tally| &**tally))),
        };
        let slots = slots.into_iter();
        let slots =
            slots.filter_map(|(start, tallies)| Tally::together(tallies, |tally| Slot::of(start, tally))).collect();
        let shapes = shapes.unwrap_or_else(|| shapes_of(self.models_of(model).map(|model| &model.whole)));
        let end_ms = Timestamp((shown.end.0.div_euclid(slot_ms) + 1) * slot_ms);
        Some(PartStatus { model: model.to_owned(), window: window.to_owned(), slot_ms, end_ms, slots, shapes })
    }

    /// The run's figures.
    pub fn summary(&mut self, run_id: &str, shown: &Shown) -> &RunSummary {
        let slots = self.window_slots(shown.end);
        let cached = self.cached.take().filter(|(of, _)| *of == slots);
        let summary = cached.map_or_else(|| self.summarise(run_id, shown), |(_, summary)| summary);
        &self.cached.insert((slots, summary)).1
    }

    fn summarise(&mut self, run_id: &str, shown: &Shown) -> RunSummary {
        let mut parts = Vec::new();
        if shown.whole {
            parts =
                parts_of(self.models.iter_mut().map(|(name, model)| (name.as_str(), &mut model.whole)).collect(), ALL);
        }
        for (index, (window, is_shown)) in shown.windows.iter().enumerate() {
            if *is_shown {
                let until_end = |(name, model): (_, &mut Model)| (name, model.windows[index].until(shown.end));
                let mut tallies: Vec<(&String, Tally)> = self.models.iter_mut().map(until_end).collect();
                let tallies = tallies.iter_mut().map(|(name, tally)| (name.as_str(), tally)).collect();
                parts.extend(parts_of(tallies, window));
            }
        }
        RunSummary::of(run_id, self.last_event, parts)
    }

    /// The slots of each window, where anything is in them.
    fn window_slots(&self, end: Timestamp) -> Vec<Option<RangeInclusive<i64>>> {
        let mut slots = Vec::new();
        for model in self.models.values() {
            slots.extend(model.windows.iter().map(|window| (!window.is_empty(end)).then(|| window.range(end))));
        }
        slots
    }
}

impl Model {
    /// Adds all of `other`.
    fn merge(&mut self, other: Self) {
        self.whole.merge(&other.whole);
        self.windows.iter_mut().zip(other.windows).for_each(|(window, other)| window.merge(other));
        self.last.merge(other.last);
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
