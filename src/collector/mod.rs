//! One session's facts.

mod end;

pub use end::EndReason;
