//! Counts and samples of some sessions.

use std::collections::BTreeMap;

use serde::Serialize;

use super::samples::RunSamples;
use super::view::BundleView;
use crate::collector::EndReason;

/// What is counted and measured of the sessions of a run, a model, a span of time.
#[derive(Clone, Debug)]
pub struct Tally {
    pub sessions: BTreeMap<EndReason, u64>,
    pub traits: Traits,
    /// Events of these sessions.
    pub events: u64,
    /// Request rows.
    pub responses: u64,
    pub samples: RunSamples,
}

/// What some sessions' figures rest on: how many have which trait.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Traits {
    /// By where the stream starts of which TTFT, TTFP and RTF of sessions are measured (contract.md section 2).
    pub sessions_by_stream_start: BTreeMap<String, u64>,
    /// A limit was reached, figures may be incomplete.
    pub sessions_truncated: u64,
    /// Receive times do not fit together, and no figure is made of them (contract.md section 1.4).
    pub sessions_with_clock_faults: u64,
}

impl Traits {
    fn add(&mut self, bundle: &BundleView<'_>) {
        let session = &bundle.session;
        // Bundles of the first releases name none.
        if let Some(source) = &session.stream_start_source {
            self.add_start(source, 1);
        }
        self.sessions_truncated += u64::from(session.truncated);
        let has_fault = match session.clock.as_deref() {
            Some("unsteady") => true,
            // Where the other clock's times are of events that no figure is made of, all figures are there.
            Some("mixed") => {
                !bundle.responses.is_empty() && bundle.responses.iter().all(|response| response.has_no_time())
            }
            _ => false,
        };
        self.sessions_with_clock_faults += u64::from(has_fault);
    }

    fn merge(&mut self, other: &Self) {
        other.sessions_by_stream_start.iter().for_each(|(source, n)| self.add_start(source, *n));
        self.sessions_truncated += other.sessions_truncated;
        self.sessions_with_clock_faults += other.sessions_with_clock_faults;
    }

    /// Sources are the collector's own words, a handful.
    fn add_start(&mut self, source: &str, sessions: u64) {
        match self.sessions_by_stream_start.get_mut(source) {
            Some(n) => *n += sessions,
            None => drop(self.sessions_by_stream_start.insert(source.to_owned(), sessions)),
        }
    }
}

impl Tally {
    /// Nothing yet; `bound` samples of each measure are kept exactly.
    #[must_use]
    pub fn bounded(bound: usize) -> Self {
        let (sessions, traits) = (BTreeMap::new(), Traits::default());
        Self { sessions, traits, events: 0, responses: 0, samples: RunSamples::bounded(bound) }
    }

    /// Takes a finished session.
    pub fn add(&mut self, bundle: &BundleView<'_>) {
        *self.sessions.entry(bundle.session.end_reason).or_default() += 1;
        self.traits.add(bundle);
        self.events += bundle.session.events;
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
        self.traits.merge(&other.traits);
        self.events += other.events;
        self.responses += other.responses;
        self.samples.merge(&other.samples);
    }
}
