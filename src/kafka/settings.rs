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
    /// The file of the token for OAUTHBEARER, by its absolute path; empty where none is used.
    pub oauth_token_file: String,
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

impl Settings {
    /// Whether clients log in with a token from a file.
    #[must_use]
    pub fn uses_token(&self) -> bool {
        !self.oauth_token_file.is_empty()
    }

    /// Whether what a client logs in with can be read on the wire.
    #[must_use]
    pub fn shows_secrets(&self) -> bool {
        let is = |names: &[&str], values: &[&str]| {
            let value = names.iter().find_map(|name| self.properties.get(*name));
            value.is_some_and(|value| values.iter().any(|one| value.eq_ignore_ascii_case(one)))
        };
        is(&["security.protocol"], &["sasl_plaintext"])
            && is(&["sasl.mechanism", "sasl.mechanisms"], &["PLAIN", "OAUTHBEARER"])
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("group_id", &self.group_id)
            .field("instance", &self.instance)
            .field("oauth_token_file", &self.oauth_token_file)
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

#[cfg(test)]
mod tests {
    use super::super::properties::tests::settings;

    #[test]
    fn a_secret_in_clear_is_known() {
        let shows = |protocol, mechanism| {
            settings(&[("security.protocol", protocol), ("sasl.mechanism", mechanism)]).shows_secrets()
        };
        assert!(shows("SASL_PLAINTEXT", "PLAIN") && shows("sasl_plaintext", "OAUTHBEARER"));
        assert!(!shows("sasl_ssl", "PLAIN") && !shows("sasl_plaintext", "SCRAM-SHA-512") && !shows("ssl", "PLAIN"));
    }
}
