//! One session's facts, incrementally: constant work per event, constant space per response.
//!
//! Owns contract.md sections 1.3, 2, 3 (the facts) and 7. Time is an argument; knows no Kafka and no JSON.

mod end;
mod playback;
mod response;
mod session;
mod settings;
mod size;
mod snapshot;
mod source;
mod stream_start;
mod tallies;
#[cfg(test)]
mod tests;

pub use end::EndReason;
pub use playback::Playback;
pub use response::{FinalStatus, Moment, ResponseFacts};
pub use session::{Arrival, End, Handled, Head, Labels, SessionCollector};
pub use settings::{Limits, Settings};
pub use snapshot::{SNAPSHOT_VERSION, Snapshot, SnapshotError};
pub(crate) use snapshot::{decode, encode, version};
pub use source::{ReceiveClock, StreamStartSource};
pub use stream_start::Chosen;
pub use tallies::Tallies;
