//! The configuration of every client: defaults, then the user's properties, then what the service owns.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::producer::BaseProducer;
use thiserror::Error;

use super::context::Logging;
use super::settings::Settings;
use super::transaction::Deliveries;

/// Time a transaction may stay open, unless `transaction.timeout.ms` says otherwise.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// librdkafka's `session.timeout.ms`.
const SESSION_TIMEOUT: Duration = Duration::from_secs(45);
/// librdkafka's `receive.message.max.bytes`, and the part of it that a response needs beside the records.
const RECEIVE_BYTES: u64 = 100_000_000;
const RESPONSE_OVERHEAD_BYTES: u64 = 1024;

/// Properties of the service itself: correctness rests on them.
const OWNED: [(&str, &str); 17] = [
    ("bootstrap.servers", "kafka.bootstrap_servers"),
    ("metadata.broker.list", "kafka.bootstrap_servers"),
    ("group.id", "kafka.group_id"),
    ("transactional.id", "kafka.group_id and kafka.instance"),
    ("isolation.level", "the service"),
    ("enable.auto.commit", "the service"),
    ("auto.commit.enable", "the service"),
    ("enable.auto.offset.store", "the service"),
    ("auto.offset.reset", "the service"),
    ("enable.partition.eof", "the service"),
    ("enable.idempotence", "the service"),
    ("acks", "the service"),
    ("request.required.acks", "the service"),
    ("statistics.interval.ms", "the service"),
    ("log.queue", "the service"),
    ("offset.store.method", "the service"),
    ("test.mock.num.brokers", "the demo"),
];

/// Consumers only; a producer would warn of them. From librdkafka's CONFIGURATION.md, column C.
const CONSUMER_ONLY: [&str; 22] = [
    "group.",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "coordinator.query.interval.ms",
    "max.poll.interval.ms",
    "enable.auto.commit",
    "auto.commit.",
    "enable.auto.offset.store",
    "queued.",
    "fetch.",
    "max.partition.fetch.bytes",
    "isolation.level",
    "consume_cb",
    "rebalance_cb",
    "offset_commit_cb",
    "enable.partition.eof",
    "check.crcs",
    "auto.offset.reset",
    "offset.store.",
    "consume.callback.",
    "client.rack",
];

/// Producers only; a consumer would warn of them. From librdkafka's CONFIGURATION.md, column P.
const PRODUCER_ONLY: [&str; 24] = [
    "transactional.id",
    "transaction.timeout.ms",
    "enable.idempotence",
    "enable.gapless.guarantee",
    "queue.buffering.",
    "linger.ms",
    "message.send.max.retries",
    "retries",
    "compression.",
    "batch.",
    "delivery.",
    "dr_cb",
    "dr_msg_cb",
    "sticky.partitioning.linger.ms",
    "request.required.acks",
    "acks",
    "request.timeout.ms",
    "message.timeout.ms",
    "queuing.strategy",
    "produce.offset.report",
    "partitioner",
    "partitioner_cb",
    "msg_order_cmp",
    "on_delivery",
];

/// Other names of properties that have a default here.
const ALIASES: [(&str, &str); 3] = [
    ("linger.ms", "queue.buffering.max.ms"),
    ("compression.type", "compression.codec"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
];

/// A property under `[kafka.properties]` that can't be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PropertyError {
    #[error("kafka.properties.\"{name}\" is set by {owner} and can't be set here")]
    Owned { name: String, owner: &'static str },
    #[error("kafka.properties.\"{name}\": {reason}")]
    Refused { name: String, reason: String },
    /// Properties that are fine alone, not together; or a file, such as a certificate, that can't be read.
    #[error("kafka.properties as a whole: {0}")]
    Combination(String),
}

/// Whose uncommitted records a reader sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

impl Settings {
    /// Checks every property without a broker.
    ///
    /// # Errors
    /// All properties that can't be used, without the values of those that look secret.
    pub fn check(&self) -> Result<(), Vec<PropertyError>> {
        let mut errors: Vec<_> = self.properties.iter().filter_map(|(name, value)| check_one(name, value)).collect();
        if errors.is_empty() {
            errors.extend(self.check_together());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Makes both clients, which reads certificates and weighs properties against each other; then drops them.
    fn check_together(&self) -> Option<PropertyError> {
        let mut consumer = self.consumer(0);
        let mut producer = self.producer(0, true);
        for config in [&mut consumer, &mut producer] {
            config.remove("bootstrap.servers").remove("group.id");
        }
        let consumer = BaseConsumer::from_config_and_context(&consumer, Logging).err();
        let producer = BaseProducer::from_config_and_context(&producer, Deliveries::default()).err();
        consumer.or(producer).map(|error| PropertyError::Combination(why_not_made(&error)))
    }

    /// A member of the group.
    pub(super) fn consumer(&self, slot: usize) -> ClientConfig {
        let mut config = self.common(&PRODUCER_ONLY, &self.client_id(slot));
        self.bounded_fetch(&mut config, 16 * 1024);
        self.default(&mut config, "partition.assignment.strategy", "cooperative-sticky");
        // Each worker is a member of its own: with one id for all, they would fence each other for ever.
        if let Some(instance) = self.properties.get("group.instance.id") {
            config.set("group.instance.id", format!("{instance}-{slot}"));
        }
        config
            .set("group.id", &self.group_id)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true")
            .set("statistics.interval.ms", "1000");
        config
    }

    /// Reads whole partitions by explicit assignment. Its group is never joined and never committed to; it is the
    /// service's own because librdkafka asks for its coordinator all the same, which needs a permission.
    pub(super) fn reader(&self, what: &str) -> ClientConfig {
        let mut config = self.common(&PRODUCER_ONLY, &format!("{}-{}-{what}", self.group_id, self.instance));
        self.bounded_fetch(&mut config, 4 * 1024);
        config.remove("group.instance.id");
        config
            .set("group.id", &self.group_id)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true");
        config
    }

    /// Asks for metadata and watermarks; without a group.
    pub(super) fn prober(&self, isolation: Isolation) -> ClientConfig {
        let mut config = self.common(&PRODUCER_ONLY, &format!("{}-{}-probe", self.group_id, self.instance));
        config.remove("group.instance.id");
        let level = match isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        config.set("isolation.level", level).set("enable.auto.commit", "false");
        config
    }

    /// Creates and describes topics.
    pub(super) fn admin(&self) -> ClientConfig {
        let mut config = self.common(&CONSUMER_ONLY, &format!("{}-{}-admin", self.group_id, self.instance));
        // The admin client is a producer to librdkafka, but only these are of use to it.
        for name in self.properties.keys() {
            if is_among(&PRODUCER_ONLY, name) {
                config.remove(name);
            }
        }
        config
    }

    /// An idempotent producer; a transactional one on demand.
    pub(super) fn producer(&self, slot: usize, transactional: bool) -> ClientConfig {
        let mut config = self.common(&CONSUMER_ONLY, &self.client_id(slot));
        self.default(&mut config, "linger.ms", "1");
        self.default(&mut config, "compression.type", "lz4");
        config.set("enable.idempotence", "true").set("acks", "all");
        if transactional {
            let timeout = self.transaction_timeout().as_millis().to_string();
            config.set("transactional.id", self.client_id(slot)).set("transaction.timeout.ms", timeout);
        } else {
            config.remove("transaction.timeout.ms");
        }
        config
    }

    pub(super) fn transaction_timeout(&self) -> Duration {
        self.duration_ms("transaction.timeout.ms", TRANSACTION_TIMEOUT)
    }

    pub(super) fn session_timeout(&self) -> Duration {
        self.duration_ms("session.timeout.ms", SESSION_TIMEOUT)
    }

    /// Also the `transactional.id`: stable over restarts, so that a restart fences its predecessor.
    fn client_id(&self, slot: usize) -> String {
        format!("{}-{}-{slot}", self.group_id, self.instance)
    }

    fn common(&self, not: &[&str], client_id: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        let debugs = self.properties.contains_key("debug");
        config.set_log_level(if debugs { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config.set("client.id", client_id).set("log.connection.close", "false");
        for (name, value) in self.properties.iter().filter(|(name, _)| !is_among(not, name)) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.bootstrap_servers);
        config
    }

    /// Prefetched records are the memory of a consumer: bounded, and fetched anew soon after the bound was reached.
    fn bounded_fetch(&self, config: &mut ClientConfig, queued_kbytes: u64) {
        self.default(config, "queued.max.messages.kbytes", &queued_kbytes.to_string());
        self.default(config, "queued.min.messages", "10000");
        self.default(config, "fetch.queue.backoff.ms", "20");
        self.default(config, "fetch.max.bytes", "8388608");
        let fetch = config.get("fetch.max.bytes").and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0);
        let receive = RECEIVE_BYTES.max(fetch.saturating_add(RESPONSE_OVERHEAD_BYTES));
        self.default(config, "receive.message.max.bytes", &receive.to_string());
    }

    /// Sets a property that the user left alone, under this and any other name of it.
    fn default(&self, config: &mut ClientConfig, name: &str, value: &str) {
        let alias = ALIASES.iter().find(|(own, _)| *own == name).map(|(_, alias)| *alias);
        let set = |name: &str| self.properties.contains_key(name);
        if !set(name) && !alias.is_some_and(set) {
            config.set(name, value);
        }
    }

    fn duration_ms(&self, name: &str, default: Duration) -> Duration {
        self.properties.get(name).and_then(|ms| ms.parse().ok()).map_or(default, Duration::from_millis)
    }
}

/// Why a client could not be made, without a secret.
pub(super) fn why_not_made(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientCreation(text) => text.clone(),
        KafkaError::ClientConfig(_, text, name, _) if !is_secret(name) => text.clone(),
        KafkaError::ClientConfig(_, _, name, _) => format!("invalid value for \"{name}\""),
        other => other.to_string(),
    }
}

fn check_one(name: &str, value: &str) -> Option<PropertyError> {
    if let Some((_, owner)) = OWNED.iter().find(|(owned, _)| *owned == name) {
        return Some(PropertyError::Owned { name: name.into(), owner });
    }
    if name == "group.protocol" && value != "classic" {
        let reason = "only \"classic\" is supported: the new protocol is unsound in the bundled librdkafka".into();
        return Some(PropertyError::Refused { name: name.into(), reason });
    }
    let error = ClientConfig::new().set(name, value).create_native_config().err()?;
    let reason = match error {
        _ if is_secret(name) => "invalid value".into(),
        KafkaError::ClientConfig(_, reason, _, _) => reason,
        other => other.to_string(),
    };
    Some(PropertyError::Refused { name: name.into(), reason })
}

/// Whether a list has that name, or its prefix where the entry ends with a dot.
fn is_among(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| if entry.ends_with('.') { name.starts_with(entry) } else { *entry == name })
}

fn is_secret(name: &str) -> bool {
    ["password", "secret", "token", "oauthbearer", "pem", "username", "credential", "assertion", "principal"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(properties: &[(&str, &str)]) -> Settings {
        Settings {
            bootstrap_servers: "127.0.0.1:1".into(),
            group_id: "group".into(),
            instance: "a".into(),
            properties: properties.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        }
    }

    #[test]
    fn defaults_alone_are_accepted() {
        assert_eq!(settings(&[]).check(), Ok(()));
    }

    #[test]
    fn every_bad_property_is_named_and_no_secret_is_shown() {
        let errors = settings(&[
            ("acks", "1"),
            ("group.protocol", "consumer"),
            ("linger.ms", "soon"),
            ("no.such.thing", "1"),
            ("sasl.oauthbearer.client.secretx", "hunter2"),
        ])
        .check()
        .unwrap_err();
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "kafka.properties.\"acks\" is set by the service and can't be set here",
                "kafka.properties.\"group.protocol\": only \"classic\" is supported: the new protocol is unsound in the \
                 bundled librdkafka",
                "kafka.properties.\"linger.ms\": Invalid value for configuration property \"queue.buffering.max.ms\"",
                "kafka.properties.\"no.such.thing\": No such configuration property: \"no.such.thing\"",
                "kafka.properties.\"sasl.oauthbearer.client.secretx\": invalid value",
            ]
        );
    }

    #[test]
    fn properties_that_contradict_each_other_are_refused() {
        let errors =
            settings(&[("session.timeout.ms", "20000"), ("max.poll.interval.ms", "10000")]).check().unwrap_err();
        assert!(matches!(&errors[..], [PropertyError::Combination(_)]), "{errors:?}");
    }

    #[test]
    fn the_user_goes_before_the_defaults_under_any_name_and_the_service_before_the_user() {
        let settings = settings(&[
            ("queue.buffering.max.ms", "50"),
            ("compression.type", "zstd"),
            ("isolation.level", "read_uncommitted"),
            ("fetch.max.bytes", "200000000"),
            ("group.instance.id", "pod-1"),
        ]);
        let producer = settings.producer(3, true);
        assert_eq!(producer.get("linger.ms"), None);
        assert_eq!(producer.get("queue.buffering.max.ms"), Some("50"));
        assert_eq!(producer.get("compression.type"), Some("zstd"));
        assert_eq!(producer.get("transactional.id"), Some("group-a-3"));
        assert_eq!(producer.get("transaction.timeout.ms"), Some("30000"));
        assert_eq!(producer.get("fetch.max.bytes"), None);
        let consumer = settings.consumer(3);
        assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
        assert_eq!(consumer.get("compression.type"), None);
        assert_eq!(consumer.get("group.instance.id"), Some("pod-1-3"));
        assert_eq!(settings.reader("restore").get("group.instance.id"), None);
        assert_eq!(consumer.get("receive.message.max.bytes"), Some("200001024"));
    }
}
