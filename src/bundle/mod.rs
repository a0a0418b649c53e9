//! From a session's facts to its bundle: request rows, session metrics, and the JSON they are written as.
//!
//! Owns contract.md sections 3 (rows), 4 and 5, where every number is the reference's, to the last digit; and
//! `responses`, which the reference does not have.

mod document;
mod measures;
mod ordered;
mod parts;
mod response;
mod row;
mod session_metrics;
mod stage;
#[cfg(test)]
mod tests;
mod times;

pub use document::{Assembled, SCHEMA_VERSION, assemble, largest_piece};
pub use measures::{ResponseMeasures, SessionMeasures, StreamMeasures};
pub use parts::Cuts;
pub use row::LatencySource;
