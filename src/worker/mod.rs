//! The loop around the tasks: poll, restore, let time pass, commit. Owns rebalances and the commit protocol.
//!
//! Generic over its [ports](Consumer), so that the real broker and a simulated one drive the same code.

mod backoff;
mod commit;
mod connection;
mod error;
mod ports;
mod queued;
mod run;
mod settings;
mod tasks;
#[cfg(test)]
mod tests;
mod unread;

pub use commit::Step;
pub use error::WorkerError;
pub use ports::{
    BrokerError, ChangelogReader, Committed, Consumer, Ends, Lag, Observer, Outgoing, Polled, Producer,
    RestoreProgress, Start, TaskState,
};
pub use queued::QueuedBytes;
pub use run::Worker;
pub use settings::{ProcessingGuarantee, Settings};
