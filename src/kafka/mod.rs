//! The only place that names rdkafka: the worker's ports against a real cluster, the start-up checks, and the embedded
//! broker of the demo.
//!
//! Knows nothing of sessions or metrics. Every call that can block has a deadline, but for a hang inside librdkafka itself.

mod assignment;
mod bundles;
mod changelog;
mod client;
mod config;
mod consumer;
mod context;
mod dead_letters;
mod denial;
mod durability;
mod embedded;
mod errors;
mod group;
mod login;
mod offsets;
mod permissions;
mod probe;
mod producer;
mod properties;
mod record_limits;
mod records;
mod remedies;
mod settings;
mod statistics;
mod topic_id;
mod topics;
mod transaction;
mod writer;

#[cfg(test)]
mod tests;

pub use bundles::{BundleReader, BundleRecord, Gone};
pub use changelog::Changelog;
pub use consumer::{Consumer, GroupMetadata};
pub use dead_letters::{DeadLetters, Entry, Place, Redriven, StoredDeadLetter};
pub use embedded::EmbeddedBroker;
pub use permissions::check_permissions;
pub use producer::Producer;
pub use properties::{PropertyError, check_property, is_secret};
pub use record_limits::{Indivisible, RecordLimits};
pub use settings::{DeadLetterPayload, Settings, Topics};
pub use topics::{CheckError, ClusterInfo, TopicProblem, check_topics, connect};
pub use writer::Writer;
