//! The loop around the tasks.

mod ports;
mod settings;

pub use ports::{
    BrokerError, ChangelogReader, Committed, Consumer, Lag, Observer, Outgoing, Polled, Producer, RestoreProgress,
    Start, TaskState,
};
pub use settings::{ProcessingGuarantee, Settings};
