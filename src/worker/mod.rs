//! The loop around the tasks.

mod ports;

pub use ports::{
    BrokerError, ChangelogReader, Committed, Consumer, Lag, Observer, Outgoing, Polled, Producer, RestoreProgress,
    Start, TaskState,
};
