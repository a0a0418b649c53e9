//! The run view's figures, as `/report` and the gauges have them.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::measure::Measure;
use super::run_view::ALL;
use super::tally::{Tally, Traits};
use crate::collector::EndReason;
use crate::distribution::{Distribution, Figures};
use crate::time::Timestamp;

/// One run's figures.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSummary {
    pub run_id: String,
    /// The last event of its sessions, by record timestamp.
    pub last_event: Option<Timestamp>,
    /// The whole run over all models first, then each model, then the same for each rolling window.
    pub parts: Vec<Part>,
}

/// The figures of one model, or of all, over the whole run or one window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Part {
    pub model: String,
    pub window: String,
    /// Sessions finished, all end reasons.
    pub sessions: u64,
    pub sessions_by_end_reason: BTreeMap<EndReason, u64>,
    #[serde(flatten)]
    pub traits: Traits,
    /// Request rows.
    pub responses: u64,
    /// Whether a measure has too many samples to be exact.
    pub approximate: bool,
    /// By measure; absent where there is no sample.
    #[serde(serialize_with = "by_name")]
    pub figures: BTreeMap<Measure, Figures>,
}

impl Part {
    /// The figures of what was tallied.
    pub(super) fn of(model: &str, window: &str, tally: &mut Tally) -> Self {
        let figures: BTreeMap<_, _> = Measure::ALL
            .into_iter()
            .filter_map(|measure| tally.samples.figures(measure).map(|figures| (measure, figures)))
            .collect();
        Self {
            model: model.to_owned(),
            window: window.to_owned(),
            sessions: tally.sessions.values().sum(),
            sessions_by_end_reason: tally.sessions.clone(),
            traits: tally.traits.clone(),
            responses: tally.responses,
            approximate: figures.values().any(|figures| figures.approximate),
            figures,
        }
    }
}

impl RunSummary {
    pub(super) fn of(run_id: &str, last_event: Option<Timestamp>, parts: Vec<Part>) -> Self {
        Self { run_id: run_id.to_owned(), last_event, parts }
    }

    /// The whole run over all models.
    #[must_use]
    pub fn whole(&self) -> Option<&Part> {
        self.part(ALL, ALL)
    }

    /// The figures of a model over a window; `None` where no session is in it.
    #[must_use]
    pub fn part(&self, model: &str, window: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.model == model && part.window == window)
    }

    /// How many series the gauges make of it, at most.
    pub(super) fn series(&self) -> usize {
        // Sessions, responses, whether it is approximate; five statistics and the count of each measure. The last event.
        let of_part = |part: &Part| 3 + 6 * part.figures.len();
        1 + self.parts.iter().map(of_part).sum::<usize>()
    }

    /// Sessions finished.
    #[must_use]
    pub fn sessions(&self) -> u64 {
        self.whole().map_or(0, |whole| whole.sessions)
    }

    /// Request rows.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.whole().map_or(0, |whole| whole.responses)
    }

    /// The reference's summary of a measure over the whole run; `None` where there is no sample.
    #[must_use]
    pub fn distribution(&self, measure: Measure) -> Option<Distribution> {
        self.whole()?.figures.get(&measure).copied().map(Distribution::from)
    }
}

/// The whole run under the report's own names (contract.md section 6), null while not all of it is read; and all parts.
impl Serialize for RunSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("run_id", &self.run_id)?;
        map.serialize_entry("last_event_ms", &self.last_event)?;
        map.serialize_entry("sessions", &self.whole().map(|whole| whole.sessions))?;
        let by_end_reason = self.whole().map(|whole| &whole.sessions_by_end_reason);
        map.serialize_entry("sessions_by_end_reason", &by_end_reason)?;
        map.serialize_entry("responses", &self.whole().map(|whole| whole.responses))?;
        for measure in Measure::ALL {
            if let Some(distribution) = self.distribution(measure) {
                map.serialize_entry(measure.name(), &distribution)?;
            }
        }
        map.serialize_entry("parts", &self.parts)?;
        map.end()
    }
}

fn by_name<S: Serializer>(figures: &BTreeMap<Measure, Figures>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(measure, figures)| (measure.name(), figures)))
}
