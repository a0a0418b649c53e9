//! The only place that names rdkafka.

mod settings;

pub use settings::{DeadLetterPayload, Settings, Topics};
