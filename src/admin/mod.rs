//! HTTP: what the process tells about itself, read only.
//!
//! Knows the metrics, the health and the run view, and neither Kafka nor a worker.

mod bind;
mod connections;
mod guard;
mod limits;
mod opening;
mod page;
mod routes;
mod serve;
mod settings;
mod shared;
#[cfg(test)]
mod tests;
mod web_config;

pub use bind::{Error, bind, bind_or_next};
pub use routes::State;
pub use serve::serve;
pub use settings::Settings;
pub use web_config::{WebConfig, WebConfigError};
