//! Every metric of the process itself: name, help, labels. Those of the runs are in `run_gauges`; nothing else declares
//! one.
//!
//! Base units; counters end in `_total`; labels come from closed sets. No family here may have more than one
//! free-text label: `prometheus` hashes label values without a separator. Counters over closed sets start at 0, so
//! that rates exist from the first scrape; a gauge has no series before its first value.

mod sessions;

use prometheus::{GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::declare::{Declare, NO_LABELS};
use super::labels::{END_REASONS, EVENT_CLASSES, OUTCOMES};
use crate::wire::DeadLetterReason;
use crate::worker::Step;

pub(super) use sessions::SessionFamilies;

/// Upper bounds of the commit histogram, in seconds: a few milliseconds when drained first, 100 ms librdkafka's floor.
const COMMIT_BUCKETS: [f64; 13] = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// The handles of every metric.
#[derive(Debug)]
pub(super) struct Catalog {
    pub records: IntCounter,
    pub record_bytes: IntCounter,
    pub tombstones: IntCounter,
    pub timestamps_ahead: IntCounter,
    pub events: IntCounterVec,
    pub dead_letters: IntCounterVec,
    pub sessions_opened: IntCounter,
    pub sessions_finished: IntCounterVec,
    pub bundles: IntCounter,
    pub bundles_truncated: IntCounter,
    pub markers_evicted: IntCounter,
    pub unreadable_values: IntCounter,
    pub commits: IntCounter,
    pub commit_duration: Histogram,
    pub aborts: IntCounterVec,
    pub refused_for_size: IntCounter,
    pub changelog_records: IntCounter,
    pub changelog_bytes: IntCounter,
    pub restored_snapshots: IntCounter,
    pub sessions: SessionFamilies,
    pub restore_records_left: IntGaugeVec,
    pub sessions_open: IntGaugeVec,
    pub state_bytes: IntGaugeVec,
    pub lag_records: IntGaugeVec,
    pub lag_seconds: GaugeVec,
    pub undecided_records: IntGaugeVec,
    pub partitions_restoring: IntGauge,
    pub partitions_running: IntGauge,
    pub broker_connected: IntGauge,
    pub queue_bytes: IntGaugeVec,
    pub poll_gap: GaugeVec,
    pub partition_stall: GaugeVec,
    /// Without labels; vectors because the value may be unknown, and then has no series.
    pub runs_not_shown: IntGaugeVec,
    pub resident_memory: IntGaugeVec,
}

impl Catalog {
    /// Declares every metric in `registry`.
    pub fn new(registry: &Registry, started_at_seconds: f64) -> Self {
        let to = Declare::to(registry);
        to.gauges("process_start_time_seconds", "Start time of the process since the Unix epoch in seconds.", &[])
            .with_label_values(NO_LABELS)
            .set(started_at_seconds);
        to.int_gauges("duplex_build_info", "The build that runs; always 1.", &["version"])
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let partitions = to.int_gauges(
            "duplex_partitions",
            "Partitions this process owns, by what their tasks do: restoring from the changelog or running.",
            &["state"],
        );
        let catalog = Self {
            records: to.counter("duplex_records_total", "Records read from the events topic and committed."),
            record_bytes: to.counter("duplex_record_bytes_total", "Bytes of the values of the records committed."),
            tombstones: to.counter("duplex_tombstones_total", "Records without a value; they are skipped."),
            timestamps_ahead: to.counter(
                "duplex_timestamps_ahead_total",
                "Events whose record is stamped past the wall clock by more than session.clock_tolerance; their timestamps end no \
                 session.",
            ),
            events: to.counters(
                "duplex_events_total",
                "Events by class and by what became of them: accepted, duplicate (a replay), late (its session has \
                 ended).",
                &["class", "outcome"],
            ),
            dead_letters: to.counters(
                "duplex_dead_letters_total",
                "Records that could not be read and went to the dead-letter topic, by reason.",
                &["reason"],
            ),
            sessions_opened: to.counter("duplex_sessions_opened_total", "Sessions whose first event was read."),
            sessions_finished: to.counters(
                "duplex_sessions_finished_total",
                "Sessions that ended, by how; evicted ones made room for others.",
                &["end_reason"],
            ),
            bundles: to.counter("duplex_bundles_total", "Bundles written, one for each finished session."),
            bundles_truncated: to.counter(
                "duplex_bundles_truncated_total",
                "Bundles whose session reached a limit, or a better source of whose stream start came too late.",
            ),
            markers_evicted: to.counter(
                "duplex_markers_evicted_total",
                "Markers of finished sessions that were forgotten before session.closed_retention, for want of room: a late \
                 event may open its session anew.",
            ),
            unreadable_values: to.counter(
                "duplex_unreadable_values_total",
                "Metric values in events that could not be read and stand as 0 in their bundle.",
            ),
            commits: to.counter("duplex_commits_total", "Transactions committed."),
            commit_duration: to.histogram(
                "duplex_commit_duration_seconds",
                "Time from the begin of a transaction to its commit.",
                &COMMIT_BUCKETS,
            ),
            aborts: to.counters(
                "duplex_aborts_total",
                "Transactions given up, by the step that failed; their records are processed again.",
                &["step"],
            ),
            refused_for_size: to.counter(
                "duplex_refused_for_size_total",
                "Transactions given up because a topic refused a record for its size.",
            ),
            changelog_records: to.counter("duplex_changelog_records_total", "Records written to the changelog."),
            changelog_bytes: to.counter("duplex_changelog_bytes_total", "Bytes written to the changelog."),
            restored_snapshots: to.counter(
                "duplex_restored_snapshots_total",
                "Changelog records read to restore the sessions of partitions newly owned.",
            ),
            sessions: SessionFamilies::declare(&to),
            restore_records_left: to.int_gauges(
                "duplex_restore_records_left",
                "Changelog records a partition has still to read before its task runs, at most; no series once it runs.",
                &["partition"],
            ),
            sessions_open: to.int_gauges(
                "duplex_sessions_open",
                "Sessions open after the last commit of a partition, or its restore.",
                &["partition"],
            ),
            state_bytes: to.int_gauges(
                "duplex_state_bytes",
                "Bytes that a partition's state takes at most, after its last commit or restore; limits.state_bytes is the \
                 ceiling.",
                &["partition"],
            ),
            lag_records: to.int_gauges(
                "duplex_partition_lag_records",
                "Records between a partition's position and its end, the high watermark; no series while Kafka does not answer.",
                &["partition"],
            ),
            lag_seconds: to.gauges(
                "duplex_partition_lag_seconds",
                "Age of the next unread record of a partition as far as it is known, 0 when none is left.",
                &["partition"],
            ),
            undecided_records: to.int_gauges(
                "duplex_partition_undecided_records",
                "Records of a partition, between its last stable offset and its high watermark, that wait for the end of \
                 another producer's transaction.",
                &["partition"],
            ),
            partitions_restoring: partitions.with_label_values(&["restoring"]),
            partitions_running: partitions.with_label_values(&["running"]),
            broker_connected: to
                .int_gauges(
                    "duplex_broker_connected",
                    "1 while Kafka answers every worker of this process, else 0.",
                    &[],
                )
                .with_label_values(NO_LABELS),
            queue_bytes: to.int_gauges(
                "duplex_queue_bytes",
                "Bytes in a worker's queues: fetch (of records not read yet), produce (of records not delivered yet).",
                &["worker", "queue"],
            ),
            poll_gap: to.gauges(
                "duplex_poll_gap_seconds",
                "Time since a worker's loop last went round; /livez fails at 120.",
                &["worker"],
            ),
            partition_stall: to.gauges(
                "duplex_partition_stall_seconds",
                "How long a partition has not moved although it has records left and the broker answers, else 0; /livez \
                 fails at 120.",
                &["partition"],
            ),
            runs_not_shown: to.int_gauges(
                "duplex_runs_not_shown",
                "Runs on the bundles topic without figures here, because run.max_runs newer runs are shown, or because newer runs \
                 use all 20,000 series.",
                &[],
            ),
            resident_memory: to.int_gauges("process_resident_memory_bytes", "Resident memory size in bytes.", &[]),
        };
        catalog.begin_at_zero();
        catalog
    }

    /// Touches every series of the closed sets, which makes them 0.
    fn begin_at_zero(&self) {
        for class in EVENT_CLASSES {
            for outcome in OUTCOMES {
                self.events.with_label_values(&[class.as_str(), outcome.as_str()]);
            }
        }
        for reason in DeadLetterReason::ALL {
            self.dead_letters.with_label_values(&[reason.as_str()]);
        }
        for step in Step::ALL {
            self.aborts.with_label_values(&[step.as_str()]);
        }
        for reason in END_REASONS {
            self.sessions_finished.with_label_values(&[reason.as_str()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<prometheus::proto::MetricFamily> {
        let registry = Registry::new();
        let _catalog = Catalog::new(&registry, 1.0);
        registry.gather()
    }

    #[test]
    fn names_follow_their_type() {
        for family in families() {
            let (name, is_counter) = (family.name(), family.get_field_type() == prometheus::proto::MetricType::COUNTER);
            assert!(name.starts_with("duplex_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            assert!(family.help().ends_with('.'), "{name}: {}", family.help());
        }
    }
}
