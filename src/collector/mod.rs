//! One session's facts.

mod end;
mod settings;
mod source;

pub use end::EndReason;
pub use settings::{Limits, Settings};
pub use source::{ReceiveClock, StreamStartSource};
