//! One session's facts, incrementally: constant work per event, constant space per response.
//!
//! Owns contract.md sections 1.3, 1.4, 2, 3 (the facts) and 7. Time is an argument; knows no Kafka and no JSON.

mod end;
mod fact;
mod facts;
mod head;
mod playback;
mod received;
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
mod waiting;
mod windowed;

pub use end::EndReason;
pub use head::{End, Head};
pub use playback::Playback;
pub use received::{Moment, Received};
pub use response::{FinalStatus, ResponseFacts};
pub use session::{Arrival, Handled, Labels, SessionCollector};
pub use settings::{Limits, Settings};
pub use snapshot::{SNAPSHOT_VERSION, Snapshot, SnapshotError};
pub(crate) use snapshot::{decode, encode, version};
pub use source::{ReceiveClock, SessionClock, StreamStartSource};
pub use stream_start::Chosen;
pub use tallies::Tallies;
pub use windowed::{Stage, Windowed};
