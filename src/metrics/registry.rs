//! The handle on every metric, shared by workers and the HTTP server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::{Registry, TextEncoder};

use super::catalog::Catalog;
use super::declare::NO_LABELS;
use super::health::Health;
use super::process::resident_memory_bytes;
use super::recent::RecentCounts;
use super::run_gauges::RunGauges;
use crate::time::Timestamp;

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every metric of the process. Clones share the same values.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    catalog: Catalog,
    run_gauges: RunGauges,
    recent: Mutex<RecentCounts>,
}

impl Metrics {
    /// All metrics as they are before the first record; `started_at` is when the process began.
    #[must_use]
    pub fn new(started_at: Timestamp) -> Self {
        let registry = Registry::new();
        let catalog = Catalog::new(&registry, started_at.as_secs_f64());
        let run_gauges = RunGauges::new();
        registry.register(Box::new(run_gauges.clone())).expect("no name is declared twice");
        Self(Arc::new(Shared { registry, catalog, run_gauges, recent: Mutex::default() }))
    }

    /// Sets the gauges that change without an event, or must not stand still with a worker that hangs: times since something
    /// happened, queues, lag, whether Kafka answers; `now` is of the workers' monotonic clock.
    pub fn set_health(&self, health: &Health, now: Duration) {
        let Catalog {
            broker_connected,
            lag_records,
            lag_seconds,
            undecided_records,
            queue_bytes,
            poll_gap,
            partition_stall,
            ..
        } = self.catalog();
        broker_connected.set(i64::from(health.is_connected(now)));
        for (worker, gap) in health.poll_gaps(now).into_iter().enumerate() {
            poll_gap.with_label_values(&[worker.to_string()]).set(gap.as_secs_f64());
        }
        for (worker, queues) in health.queues().into_iter().enumerate() {
            for (name, queued) in queues {
                let bytes = i64::try_from(queued.get()).unwrap_or(i64::MAX);
                queue_bytes.with_label_values(&[&worker.to_string(), name]).set(bytes);
            }
        }
        // A partition that left takes its series along, and so does what is not known any more.
        lag_records.reset();
        lag_seconds.reset();
        undecided_records.reset();
        for (partition, lag) in health.lags(now) {
            let label = [partition.to_string()];
            lag_records.with_label_values(&label).set(lag.records);
            lag_seconds.with_label_values(&label).set(lag.seconds);
            undecided_records.with_label_values(&label).set(lag.undecided);
        }
        partition_stall.reset();
        for (partition, stall) in health.stalls(now) {
            partition_stall.with_label_values(&[partition.to_string()]).set(stall.as_secs_f64());
        }
    }

    /// All series in Prometheus' text format 0.0.4, sorted by name and labels.
    #[must_use]
    pub fn encode(&self) -> String {
        self.read_memory();
        let mut text = String::new();
        TextEncoder::new()
            .encode_utf8(&self.0.registry.gather(), &mut text)
            .expect("a gathered family has a name and a series, and a String takes any text");
        text
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    pub(super) fn run_gauges(&self) -> &RunGauges {
        &self.0.run_gauges
    }

    pub(super) fn recent(&self) -> MutexGuard<'_, RecentCounts> {
        self.0.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_memory(&self) {
        let family = &self.0.catalog.resident_memory;
        match resident_memory_bytes() {
            Some(bytes) => family.with_label_values(NO_LABELS).set(i64::try_from(bytes).unwrap_or(i64::MAX)),
            None => family.reset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_sample_has_no_series() {
        let text = Metrics::new(Timestamp(1_500)).encode();
        for absent in [
            "{run=",
            "_seconds_mean",
            "_samples",
            "duplex_run_",
            "duplex_sessions_open{",
            "duplex_partition_lag_",
            "duplex_queue_bytes{",
            "NaN",
        ] {
            assert!(!text.contains(absent), "{absent} in\n{text}");
        }
    }

    #[test]
    fn counters_of_closed_sets_begin_at_zero() {
        let text = Metrics::new(Timestamp(1_500)).encode();
        for line in [
            "duplex_records_total 0",
            "duplex_events_total{class=\"audio\",outcome=\"late\"} 0",
            "duplex_dead_letters_total{reason=\"bad_receive_time\"} 0",
            "duplex_sessions_finished_total{end_reason=\"idle_timeout\"} 0",
            "duplex_commit_duration_seconds_count 0",
            "duplex_responses_total{status=\"incomplete\"} 0",
            "duplex_overlaps_total{action=\"other\"} 0",
            "duplex_session_errors_total{code=\"input_backpressure\"} 0",
            "duplex_response_ttft_seconds_count{source=\"server\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
        }
    }

    #[test]
    fn the_process_and_its_build_are_named() {
        let text = Metrics::new(Timestamp(1_500)).encode();
        assert!(text.contains("\nprocess_start_time_seconds 1.5\n"), "{text}");
        assert!(
            text.contains(concat!("\nduplex_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n")),
            "{text}"
        );
    }
}
