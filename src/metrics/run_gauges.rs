//! The run view's figures as gauges: milliseconds of the report become seconds.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::catalog::{Catalog, DistributionGauges};
use super::registry::Metrics;
use crate::distribution::Distribution;
use crate::report::RunSummary;

impl Metrics {
    /// Sets the gauges of these runs and removes those of every other run.
    ///
    /// A distribution that has no sample has no series.
    pub fn set_runs(&self, runs: &[RunSummary]) {
        let mut shown = self.runs().lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.catalog();
        let present: BTreeSet<String> = runs.iter().map(|run| run.run_id.clone()).collect();
        for gone in shown.difference(&present) {
            // An error says that there was no series, as for a run without sessions that have audio.
            let _ = catalog.run_sessions.remove_label_values(&[gone]);
            for (gauges, ..) in distributions(catalog, None) {
                gauges.remove(gone);
            }
        }
        for run in runs {
            catalog.run_sessions.with_label_values(&[&run.run_id]).set(i64::try_from(run.sessions).unwrap_or(i64::MAX));
            for (gauges, distribution, per_unit) in distributions(catalog, Some(run)) {
                match distribution {
                    Some(distribution) => gauges.set(&run.run_id, distribution, per_unit),
                    None => gauges.remove(&run.run_id),
                }
            }
        }
        *shown = present;
    }
}

const MILLISECONDS_PER_SECOND: f64 = 1000.0;

/// Each family of gauges, its figures in `run`, and how many of the report's units make one of the gauge's.
fn distributions<'a>(
    catalog: &'a Catalog,
    run: Option<&RunSummary>,
) -> [(&'a DistributionGauges, Option<Distribution>, f64); 3] {
    let of = |pick: fn(&RunSummary) -> Option<Distribution>| run.and_then(pick);
    [
        (&catalog.stream_ttft, of(|run| run.duplex_stream_ttft_ms), MILLISECONDS_PER_SECOND),
        (&catalog.stream_ttfp, of(|run| run.duplex_stream_ttfp_ms), MILLISECONDS_PER_SECOND),
        (&catalog.stream_rtf, of(|run| run.duplex_stream_rtf), 1.0),
    ]
}

impl DistributionGauges {
    fn set(&self, run: &str, distribution: Distribution, per_unit: f64) {
        self.mean.with_label_values(&[run]).set(distribution.mean / per_unit);
        self.p50.with_label_values(&[run]).set(distribution.p50 / per_unit);
        self.p99.with_label_values(&[run]).set(distribution.p99 / per_unit);
        self.samples.with_label_values(&[run]).set(i64::try_from(distribution.count).unwrap_or(i64::MAX));
    }

    /// Removes the run's series; without an effect where it has none.
    fn remove(&self, run: &str) {
        for family in [&self.mean, &self.p50, &self.p99] {
            let _ = family.remove_label_values(&[run]);
        }
        let _ = self.samples.remove_label_values(&[run]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::time::Timestamp;

    fn run(run_id: &str) -> RunSummary {
        RunSummary {
            run_id: run_id.to_owned(),
            sessions: 3,
            sessions_by_end_reason: BTreeMap::new(),
            responses: 0,
            duplex_stream_ttft_ms: None,
            duplex_stream_ttfp_ms: None,
            duplex_stream_rtf: None,
            duplex_response_ttft_ms: None,
            duplex_response_ttfp_ms: None,
            duplex_client_ttft_ms: None,
            duplex_client_ttfp_ms: None,
        }
    }

    fn with_ttft(run_id: &str) -> RunSummary {
        let ttft = Distribution { count: 2, mean: 250.5, p50: 200.25, p99: 300.75 };
        let rtf = Distribution { count: 2, mean: 2.5, p50: 2.0, p99: 3.123_456 };
        RunSummary { duplex_stream_ttft_ms: Some(ttft), duplex_stream_rtf: Some(rtf), ..run(run_id) }
    }

    fn run_series(metrics: &Metrics) -> Vec<String> {
        let text = metrics.encode();
        text.lines().filter(|line| line.contains("{run=")).map(str::to_owned).collect()
    }

    #[test]
    fn milliseconds_become_seconds_and_absent_distributions_have_no_series() {
        let metrics = Metrics::new(Timestamp(0));
        metrics.set_runs(&[with_ttft("a"), run("b")]);
        assert_eq!(
            run_series(&metrics),
            [
                "duplex_run_sessions{run=\"a\"} 3",
                "duplex_run_sessions{run=\"b\"} 3",
                "duplex_stream_rtf_mean{run=\"a\"} 2.5",
                "duplex_stream_rtf_p50{run=\"a\"} 2",
                "duplex_stream_rtf_p99{run=\"a\"} 3.123456",
                "duplex_stream_rtf_samples{run=\"a\"} 2",
                "duplex_stream_ttft_samples{run=\"a\"} 2",
                "duplex_stream_ttft_seconds_mean{run=\"a\"} 0.2505",
                "duplex_stream_ttft_seconds_p50{run=\"a\"} 0.20025",
                "duplex_stream_ttft_seconds_p99{run=\"a\"} 0.30075",
            ]
        );
    }

    #[test]
    fn a_run_that_left_takes_its_series_along() {
        let metrics = Metrics::new(Timestamp(0));
        metrics.set_runs(&[with_ttft("a"), run("b")]);
        metrics.set_runs(&[run("b")]);
        assert_eq!(run_series(&metrics), ["duplex_run_sessions{run=\"b\"} 3"]);
        metrics.set_runs(&[]);
        assert_eq!(run_series(&metrics), [""; 0]);
    }

    #[test]
    fn a_distribution_that_lost_its_samples_loses_its_series() {
        let metrics = Metrics::new(Timestamp(0));
        metrics.set_runs(&[with_ttft("a")]);
        metrics.set_runs(&[run("a")]);
        assert_eq!(run_series(&metrics), ["duplex_run_sessions{run=\"a\"} 3"]);
    }

    #[test]
    fn a_run_id_is_escaped() {
        let metrics = Metrics::new(Timestamp(0));
        metrics.set_runs(&[run("a\"\n\\")]);
        assert_eq!(run_series(&metrics), ["duplex_run_sessions{run=\"a\\\"\\n\\\\\"} 3"]);
    }
}
