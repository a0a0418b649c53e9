//! The loop around the tasks: poll, restore, let time pass, commit. Owns rebalances and the commit protocol.
//!
//! Generic over its [ports](Consumer), so that the real broker and a simulated one drive the same code.

mod commit;
mod ports;
mod run;
mod settings;
mod tasks;
#[cfg(test)]
mod tests;

pub use ports::{
    BrokerError, ChangelogReader, Committed, Consumer, Lag, Observer, Outgoing, Polled, Producer, RestoreProgress,
    Start, TaskState,
};
pub use run::{Worker, WorkerError};
pub use settings::{ProcessingGuarantee, Settings};
