//! Exact summaries of a set of numbers: the reference's `{count, mean, p50, p99}` by nearest rank.
//!
//! Pure; knows nothing of what the numbers mean.

mod interval;
mod summary;

pub use interval::IntervalSummary;
pub use summary::{Distribution, Samples};
