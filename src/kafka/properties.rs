//! Which properties a user may set, whose they are, and whether they can be used.

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::producer::BaseProducer;
use thiserror::Error;

use super::context::Logging;
use super::record_limits::RecordLimits;
use super::settings::Settings;
use super::transaction::Deliveries;

/// Properties of the service itself: correctness rests on them.
const OWNED: [(&str, &str); 19] = [
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
    ("enable.sasl.oauthbearer.unsecure.jwt", "kafka.oauth_token_file"),
    ("sasl.oauthbearer.config", "kafka.oauth_token_file"),
    ("statistics.interval.ms", "the service"),
    ("log.queue", "the service"),
    ("offset.store.method", "the service"),
    ("test.mock.num.brokers", "the demo"),
];

/// Consumers only; a producer would warn of them. From librdkafka's CONFIGURATION.md, column C.
pub(super) const CONSUMER_ONLY: [&str; 22] = [
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
pub(super) const PRODUCER_ONLY: [&str; 24] = [
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

impl Settings {
    /// Checks every property without a broker.
    ///
    /// # Errors
    /// All properties that can't be used, without the values of those that look secret.
    pub fn check(&self) -> Result<(), Vec<PropertyError>> {
        let mut errors: Vec<_> =
            self.properties.iter().filter_map(|(name, value)| check_property(name, value)).collect();
        if errors.is_empty() {
            errors.extend(self.check_together());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Makes both clients, which reads certificates and weighs properties against each other; then drops them.
    fn check_together(&self) -> Option<PropertyError> {
        let mut consumer = self.consumer(0);
        let mut producer = self.producer(0, true, &RecordLimits::unasked(self));
        for config in [&mut consumer, &mut producer] {
            config.remove("bootstrap.servers").remove("group.id");
        }
        let consumer = BaseConsumer::from_config_and_context(&consumer, Logging::default()).err();
        let producer = BaseProducer::from_config_and_context(&producer, Deliveries::default()).err();
        consumer.or(producer).map(|error| PropertyError::Combination(why_not_made(&error)))
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

/// Why a property can't be used, judged alone and without a broker; `None` where it can.
#[must_use]
pub fn check_property(name: &str, value: &str) -> Option<PropertyError> {
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
pub(super) fn is_among(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| if entry.ends_with('.') { name.starts_with(entry) } else { *entry == name })
}

/// Whether a property's value is never to be seen.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "sasl.oauthbearer.config" || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// A property with one of these in its name is a secret.
const SECRET_PARTS: [&str; 6] = ["password", "passphrase", "secret", "token", ".pem", "jaas"];

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn settings(properties: &[(&str, &str)]) -> Settings {
        Settings {
            bootstrap_servers: "127.0.0.1:1".into(),
            group_id: "group".into(),
            instance: "a".into(),
            oauth_token_file: String::new(),
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
}
