//! The sessions of one partition.

mod batch;
mod record;

pub use batch::{Bundle, ChangelogEntry, CommitBatch, Counts, DeadLetter, Outcome};
pub use record::{Header, Record};
