//! `duplex_metrics.json` (contract.md section 6), and the same figures kept up to date for a run.
//!
//! Fed with bundles as they stand on the topic; rows keep the bytes they came with.

mod build;
mod run_view;
mod samples;
#[cfg(test)]
mod tests;

pub use build::{Report, ReportError};
pub use run_view::{RunSummary, RunView};
