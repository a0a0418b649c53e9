//! The sessions of one partition: what a record does to them, what a commit carries, how state comes back.
//!
//! Pure: time and records are arguments, effects are a [`CommitBatch`]. Knows no Kafka client and no clock.

mod batch;
mod changelog;
mod checkpoint;
mod clock;
mod closed_sessions;
mod identify;
mod open_sessions;
mod partition;
mod record;
#[cfg(test)]
mod tests;

pub use crate::bundle::largest_piece;
pub use batch::{
    Ahead, Bundle, ChangelogEntry, CommitBatch, Counts, DeadLetter, FinishedSession, Outcome, largest_entry,
};
pub use changelog::{ChangelogState, ClosedMarker, Key};
pub use checkpoint::{Checkpoint, CommittedOffset, RestoreError};
pub use clock::Reading;
pub use partition::{PartitionTask, StateSize};
pub use record::{Header, Record};
