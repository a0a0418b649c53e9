//! One event off the wire.

mod reason;

pub use reason::{DeadLetterReason, EventClass};
