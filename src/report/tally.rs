//! Counts and samples of some sessions.

use std::collections::BTreeMap;

use super::samples::RunSamples;
use super::view::BundleView;
use crate::collector::EndReason;

/// What is counted and measured of the sessions of a run, a model, a span of time.
#[derive(Clone, Debug)]
pub struct Tally {
    pub sessions: BTreeMap<EndReason, u64>,
    /// Request rows.
    pub responses: u64,
    pub samples: RunSamples,
}

impl Tally {
    /// Nothing yet; `bound` samples of each measure are kept exactly.
    #[must_use]
    pub fn bounded(bound: usize) -> Self {
        Self { sessions: BTreeMap::new(), responses: 0, samples: RunSamples::bounded(bound) }
    }

    /// Takes a finished session.
    pub fn add(&mut self, bundle: &BundleView<'_>) {
        *self.sessions.entry(bundle.session.end_reason).or_default() += 1;
        self.responses += bundle.request_metrics.len() as u64;
        for row in &bundle.request_metrics {
            self.samples.add_row(row, bundle.response_of(row));
        }
        self.samples.add_session(&bundle.session_metrics);
    }

    /// Asks all of `tallies` together; a single one as it is, which spares a copy of its samples.
    pub fn together<T>(mut tallies: Vec<&mut Self>, ask: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match &mut tallies[..] {
            [] => None,
            [only] => Some(ask(only)),
            [first, others @ ..] => {
                let mut all = (**first).clone();
                others.iter().for_each(|tally| all.merge(tally));
                Some(ask(&mut all))
            }
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (reason, n) in &other.sessions {
            *self.sessions.entry(*reason).or_default() += n;
        }
        self.responses += other.responses;
        self.samples.merge(&other.samples);
    }
}
