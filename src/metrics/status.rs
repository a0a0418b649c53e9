//! What this process is doing, for the status page: the same gauges and counters, without their labels.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::Metric;
use serde::Serialize;

use super::health::{Health, Probe};
use super::registry::Metrics;
use crate::report::{Recent, Replica};
use crate::time::Timestamp;
use crate::wire::DeadLetterReason;

/// One process; others of the group have sessions and partitions of their own.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplicaStatus {
    pub live: Probe,
    pub ready: Probe,
    /// `None` before the first restore or commit.
    pub sessions_open: Option<f64>,
    /// `None` where it is not known (yet), as while Kafka does not answer.
    pub lag: Option<LagStatus>,
    pub partitions: PartitionStatus,
    /// Since the process began, by reason; those that there were.
    pub dead_letters: BTreeMap<&'static str, u64>,
    pub recent: Recent,
}

impl ReplicaStatus {
    /// What of it is judged.
    #[must_use]
    pub fn judged(&self) -> Replica {
        Replica {
            live: self.live.passes,
            ready: self.ready.passes,
            sessions_open: self.sessions_open,
            lag_seconds: self.lag.map(|lag| lag.seconds),
            recent: self.recent,
        }
    }
}

/// The records of all its partitions that are not read yet, and the age of the oldest.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LagStatus {
    pub records: f64,
    pub seconds: f64,
}

/// Its partitions, by what their tasks do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PartitionStatus {
    pub running: i64,
    pub restoring: i64,
}

impl Metrics {
    /// The process as it is; `now` is of the workers' monotonic clock, `wall` the wall clock.
    #[must_use]
    pub fn status(&self, health: &Health, now: Duration, wall: Timestamp) -> ReplicaStatus {
        let catalog = self.catalog();
        let lag = health
            .lags(now)
            .into_iter()
            .map(|(_, lag)| LagStatus { records: lag.records as f64, seconds: lag.seconds });
        let lag = lag.reduce(|one, other| LagStatus {
            records: one.records + other.records,
            seconds: one.seconds.max(other.seconds),
        });
        let dead_letters = |reason: DeadLetterReason| {
            let count = catalog.dead_letters.with_label_values(&[reason.as_str()]).get();
            (count > 0).then_some((reason.as_str(), count))
        };
        ReplicaStatus {
            live: health.liveness(now),
            ready: health.readiness(now),
            sessions_open: sum(&catalog.sessions_open),
            lag,
            partitions: PartitionStatus {
                running: catalog.partitions_running.get(),
                restoring: catalog.partitions_restoring.get(),
            },
            dead_letters: DeadLetterReason::ALL.into_iter().filter_map(dead_letters).collect(),
            recent: self.recent().at(wall),
        }
    }
}

/// `None` where there is no series.
fn sum(gauges: &impl Collector) -> Option<f64> {
    values(gauges).into_iter().reduce(|sum, value| sum + value)
}

fn values(gauges: &impl Collector) -> Vec<f64> {
    let value = |metric: &Metric| metric.get_gauge().get_value();
    gauges.collect().iter().flat_map(|family| family.get_metric().iter().map(value).collect::<Vec<_>>()).collect()
}
