//! Summaries of a set of numbers: the reference's `{count, mean, p50, p99}` by nearest rank, exact up to a bound.
//!
//! Pure; knows nothing of what the numbers mean.

mod interval;
mod shape;
mod sketch;
mod summary;

pub use interval::IntervalSummary;
pub use shape::{Bin, Shape};
pub use sketch::RELATIVE_ERROR;
pub use summary::{Distribution, Figures, Samples};
