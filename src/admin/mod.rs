//! HTTP: what the process tells about itself, read only.
//!
//! Knows the metrics, the health and the run view, and neither Kafka nor a worker.

mod bind;
mod connections;
mod limits;
mod page;
mod routes;
mod serve;
mod settings;

pub use bind::{Error, bind, bind_or_next};
pub use routes::State;
pub use serve::serve;
pub use settings::Settings;
