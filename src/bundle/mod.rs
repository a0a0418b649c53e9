//! From a session's facts to its bundle: request rows, session metrics, and the JSON they are written as.
//!
//! Owns contract.md sections 3 (rows), 4 and 5. Every number is the reference's, to the last digit.

mod document;
mod ordered;
mod row;
mod session_metrics;
mod stage;
#[cfg(test)]
mod tests;

pub use document::{Assembled, SCHEMA_VERSION, assemble};
