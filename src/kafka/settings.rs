//! `[kafka]` and `[topics]` of the configuration.

use std::collections::BTreeMap;
use std::fmt;

/// How to reach the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `host:port[,host:port...]`
    pub bootstrap_servers: String,
    /// The consumer group, and the first part of every `transactional.id`.
    pub group_id: String,
    /// This process within the group, stable over restarts: the second part of every `transactional.id`.
    pub instance: String,
    /// librdkafka properties, passed through; secrets included, so never printed whole.
    pub properties: BTreeMap<String, String>,
}

/// The topics the service reads and writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topics {
    pub events: String,
    pub bundles: String,
    pub dead_letters: String,
    pub changelog: String,
    /// Whether missing topics are made at start.
    pub create: bool,
    /// Partitions of topics that are made.
    pub partitions: i32,
    /// Replicas of topics that are made.
    pub replication_factor: i32,
}

/// What a dead letter keeps of its record on the dead-letter topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeadLetterPayload {
    /// The record's bytes, unchanged.
    #[default]
    Keep,
    /// No value, for deployments that may not copy audio or text.
    Drop,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("group_id", &self.group_id)
            .field("instance", &self.instance)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            events: "duplex.events".into(),
            bundles: "duplex.bundles".into(),
            dead_letters: "duplex.dead-letters".into(),
            changelog: "duplex.changelog".into(),
            create: false,
            partitions: 8,
            replication_factor: 3,
        }
    }
}
