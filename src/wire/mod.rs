//! One event off the wire: its JSON read leniently and in one pass, its payload measured and never copied.
//!
//! Owns contract.md sections 1.1, 1.2 and the reading rules of section 3. Knows nothing of sessions or of Kafka.

mod base64;
mod decode;
mod event;
mod json;
mod reason;
mod request;
mod scalar;
mod stage;
#[cfg(test)]
mod tests;
mod text;
mod unsupported;
mod vocabulary;

pub use self::base64::decoded_len;
pub use decode::{Decoder, Error, MAX_DEPTH};
pub use event::{Event, Kind, Payload, Text};
pub use reason::{DeadLetterReason, EventClass};
pub use request::{Origin, RequestMetrics};
pub use scalar::Scalar;
pub use stage::{Intervals, StageLimits, StageMetrics, StageSnapshot};
pub use text::cut;
pub use unsupported::Unsupported;
pub use vocabulary::{ERROR_CODES, OTHER, OVERLAP_ACTIONS, error_code, overlap_action};
