//! `duplex_metrics.json` and the run view (contract.md section 6).

mod run_view;

pub use run_view::{RunSummary, RunView};
