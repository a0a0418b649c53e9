//! Made-up full-duplex voice traffic for the demo, loadgen and tests.
//!
//! Owns what the events of contract.md section 1.2 look like on the wire and when they come. The same
//! [`Profile`] gives the same bytes on every machine and in every version: the only source of chance is
//! ChaCha8, and every draw is integer arithmetic. Knows nothing of the collector, the task or Kafka, so
//! that no test compares the product with itself.

mod character;
mod json;
mod metrics;
mod payloads;
mod playback;
mod profile;
mod random;
mod render;
mod response;
mod script;
mod session;
mod share;
mod step;
mod traffic;
mod words;

pub use profile::{Profile, Tap};
pub use share::Share;
pub use traffic::{Counts, Event, Traffic};
