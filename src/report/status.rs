//! What the status page and `top` show of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::finished::FinishedSession;
use super::measure::Measure;
use super::summary::RunSummary;
use super::tally::Tally;
use crate::distribution::{Bin, Figures, Shape};
use crate::time::Timestamp;

/// What of a run is asked for; what is left out is the run whose last event is latest, all models, the shortest window.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusQuery {
    pub run: Option<String>,
    pub model: Option<String>,
    pub window: Option<String>,
}

/// One run, and which others there are. The same on every replica.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunStatus {
    /// Whether the bundles topic has been read to its end once; until then what needs all of it is not shown.
    pub complete: bool,
    /// When this replica could read the topic for the last time; `None` before that.
    pub current_at_ms: Option<Timestamp>,
    /// The one whose last event is latest first.
    pub runs: Vec<Arc<str>>,
    /// How many more are on the topic; `None` while that is not known.
    pub runs_not_shown: Option<usize>,
    /// As `/report` has it; `None` where there is no such run (yet).
    pub run: Option<RunSummary>,
    /// The rolling windows, shortest first.
    pub windows: Vec<String>,
    /// `None` where there is no such run or window.
    pub view: Option<PartStatus>,
    /// Of the run and the model, the latest first.
    pub last_sessions: Vec<FinishedSession>,
}

/// How the figures of one part of a run came about.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PartStatus {
    pub model: String,
    pub window: String,
    /// Length of a slot in milliseconds.
    pub slot_ms: i64,
    /// Where the last slot ends.
    pub end_ms: Timestamp,
    /// The window in slots, or where that is the whole run the longest one; those without a session are left out.
    pub slots: Vec<Slot>,
    /// Of the part itself, by measure.
    pub shapes: BTreeMap<&'static str, Vec<Bin>>,
}

/// A slot of a window by event time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Slot {
    pub start_ms: Timestamp,
    pub sessions: u64,
    /// Of these sessions.
    pub events: u64,
    /// By measure; absent where there is no sample.
    pub figures: BTreeMap<&'static str, Figures>,
}

impl Slot {
    pub(super) fn of(start: Timestamp, tally: &mut Tally) -> Self {
        let figures = |measure: Measure| Some((measure.name(), tally.samples.figures(measure)?));
        Self {
            start_ms: start,
            figures: Measure::PLOTTED.into_iter().filter_map(figures).collect(),
            sessions: tally.sessions.values().sum(),
            events: tally.events,
        }
    }
}

/// The shapes of all `tallies` together.
pub(super) fn shapes_of<'a>(tallies: impl Iterator<Item = &'a Tally>) -> BTreeMap<&'static str, Vec<Bin>> {
    let mut shapes: BTreeMap<&'static str, Shape> = BTreeMap::new();
    for tally in tallies {
        for (measure, shape) in tally.samples.shapes() {
            shapes.entry(measure.name()).or_default().merge(shape);
        }
    }
    let filled = shapes.into_iter().map(|(measure, shape)| (measure, shape.bins()));
    filled.filter(|(_, bins)| !bins.is_empty()).collect()
}
