//! The configuration: a TOML file, `DUPLEX_` environment variables and flags, checked as a whole.
//!
//! Later layers win: file < environment < flags. Every problem of one load is reported together. What the process
//! gives (environment, host name, files of secrets) arrives in [`Inputs`]; nothing here asks the system by itself,
//! except [`Inputs::of_process`].

mod environment;
mod file;
mod inputs;
mod keys;
mod layers;
mod problem;
mod properties;
mod render;
mod rules;
mod validate;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::{admin, collector, kafka, report, worker};

pub use inputs::{CONFIG_VARIABLE, ConfigFile, Inputs};
pub use problem::{Origin, Problem, Problems};

/// The documented defaults of every key, as a file to begin from.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// The effective configuration. `Display` renders it as TOML with every key, secrets hidden.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    pub kafka: kafka::Settings,
    pub topics: kafka::Topics,
    pub dead_letter_payload: kafka::DeadLetterPayload,
    pub worker: worker::Settings,
    pub session: collector::Settings,
    pub run: report::ViewSettings,
    pub admin: admin::Settings,
    pub log: LogSettings,
    /// Kafka properties whose value came from a file: hidden whatever their name.
    pub properties_from_files: BTreeSet<String>,
}

/// `[log]` of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSettings {
    pub format: LogFormat,
    /// Directives as `tracing_subscriber::EnvFilter` reads them.
    pub filter: String,
}

/// How a log line is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

impl LogFormat {
    /// The value in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl Config {
    /// The defaults of every key, for a process of this name within its group.
    #[must_use]
    pub fn with_instance(instance: impl Into<String>) -> Self {
        Self {
            kafka: kafka::Settings {
                bootstrap_servers: "127.0.0.1:9092".into(),
                group_id: "duplex-collector".into(),
                instance: instance.into(),
                oauth_token_file: String::new(),
                properties: Default::default(),
            },
            topics: Default::default(),
            dead_letter_payload: Default::default(),
            worker: Default::default(),
            session: Default::default(),
            run: Default::default(),
            admin: Default::default(),
            log: LogSettings { format: LogFormat::default(), filter: "info".into() },
            properties_from_files: BTreeSet::new(),
        }
    }

    /// Lays the inputs over the defaults and checks the result.
    ///
    /// # Errors
    /// Every problem of the inputs: syntax, unknown keys, wrong types, values out of range, rules between keys. A file
    /// with a syntax error is not looked into further, and rules between keys wait until it can be read.
    pub fn load(inputs: &Inputs) -> Result<Self, Problems> {
        let layers = layers::Layers::of(inputs);
        validate::settle(layers, inputs.read_secret)
    }
}
