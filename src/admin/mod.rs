//! HTTP.

mod settings;

pub use settings::Settings;
