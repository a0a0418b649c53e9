//! What the service tells about itself: counters, gauges and probes.
//!
//! The only module that names `prometheus`. Reads no clock and opens no socket; `admin` serves what is kept here.

mod catalog;
mod declare;
mod health;
mod labels;
mod not_read;
mod observer;
mod process;
mod recent;
mod registry;
mod run_gauges;
mod session_counts;
mod status;
mod worker_health;

pub use health::{Health, Probe};
pub use observer::WorkerObserver;
pub use registry::{CONTENT_TYPE, Metrics};
pub use status::{LagStatus, PartitionStatus, ReplicaStatus};
