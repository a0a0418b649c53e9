//! `duplex_metrics.json` (contract.md section 6), and the same figures kept up to date for a run.
//!
//! Fed with bundles as they stand on the topic; rows keep the bytes they came with.

mod build;
mod finished;
mod measure;
mod names;
mod parts;
mod python;
mod ranks;
mod rolling;
mod run;
mod run_view;
mod samples;
mod status;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

pub use build::{Report, ReportError};
pub use finished::{FinishedResponse, FinishedSession};
pub use measure::Measure;
pub use parts::Parts;
pub use run_view::{ALL, OTHER, RunView, ViewSettings};
pub use status::{PartStatus, RunStatus, Slot, StatusQuery};
pub use summary::{Part, RunSummary};
pub use verdict::{Check, PlottedLimit, RECENT, Recent, Replica, State, Verdict};
