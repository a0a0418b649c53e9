//! The configuration of every client: defaults, then the user's properties, then what the service owns.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::properties::{CONSUMER_ONLY, PRODUCER_ONLY, is_among};
use super::record_limits::RecordLimits;
use super::settings::Settings;
use super::topic_id;

/// Time a transaction may stay open, unless `transaction.timeout.ms` says otherwise.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);
/// What a member that is gone for good costs. librdkafka's 45 s are for members that are not recognised when they come back;
/// its heartbeats, every 3 s, fit three times.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// librdkafka's `receive.message.max.bytes`, and the part of it that a response needs beside the records.
const RECEIVE_BYTES: u64 = 100_000_000;
const RESPONSE_OVERHEAD_BYTES: u64 = 1024;

/// Other names of properties that have a default here.
const ALIASES: [(&str, &str); 3] = [
    ("linger.ms", "queue.buffering.max.ms"),
    ("compression.type", "compression.codec"),
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
];

/// Whose uncommitted records a reader sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Isolation {
    ReadCommitted,
    ReadUncommitted,
}

/// The longest that a broker may wait for records before it answers a member of the group.
const MAX_FETCH_WAIT_MS: u64 = 2_000;
/// librdkafka's `batch.size`.
const BATCH_BYTES: usize = 1_000_000;
/// The most that librdkafka takes as `message.max.bytes`. Topics may allow more.
const LARGEST_RECORD: &str = "1000000000";

impl Settings {
    /// A member of the group.
    pub(super) fn consumer(&self, slot: usize) -> ClientConfig {
        let mut config = self.common(&PRODUCER_ONLY, &self.client_id(slot));
        self.bounded_fetch(&mut config, 16 * 1024);
        self.default(&mut config, "partition.assignment.strategy", "cooperative-sticky");
        topic_id::listen(&mut config);
        let session_timeout = self.session_timeout().as_millis().to_string();
        self.default(&mut config, "session.timeout.ms", &session_timeout);
        // A static member: one that was killed and comes back, or lost its broker, has its partitions again at once. Each
        // worker is a member of its own: with one id for all, they would fence each other for ever.
        let instance = self.properties.get("group.instance.id").unwrap_or(&self.instance);
        config.set("group.instance.id", format!("{instance}-{slot}"));
        config
            .set("group.id", &self.group_id)
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true")
            .set("statistics.interval.ms", "1000");
        // A broker that holds an answer back for longer would look as if it did not answer.
        let wait = config.get("fetch.wait.max.ms").and_then(|ms| ms.parse().ok()).unwrap_or(500);
        config.set("fetch.wait.max.ms", wait.min(MAX_FETCH_WAIT_MS).to_string());
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

    /// An idempotent producer, a transactional one on demand, of records and batches within `limits`.
    pub(super) fn producer(&self, slot: usize, transactional: bool, limits: &RecordLimits) -> ClientConfig {
        let mut config = self.common(&CONSUMER_ONLY, &self.client_id(slot));
        self.default(&mut config, "linger.ms", "1");
        self.default(&mut config, "compression.type", "lz4");
        // librdkafka's 1 GB could hold the parts of a large bundle all at once, beside the bundle.
        self.default(&mut config, "queue.buffering.max.kbytes", "131072");
        // Both of records as they are. A batch of several is to be no reason for a refusal; a single record that is too
        // large for its topic is for the broker to refuse, which has the last word.
        let batch = config.get("batch.size").and_then(|bytes| bytes.parse().ok()).unwrap_or(BATCH_BYTES);
        config.set("batch.size", batch.min(limits.batch()).to_string());
        config.set("message.max.bytes", LARGEST_RECORD);
        // As Java's clients choose: equal keys are in equal partitions whoever wrote them.
        self.default(&mut config, "partitioner", "murmur2_random");
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

    /// Also the `transactional.id`: stable over restarts, so that a restart fences its predecessor. An instance has no "/",
    /// so no other group, instance and slot come to the same.
    fn client_id(&self, slot: usize) -> String {
        format!("{}/{}/{slot}", self.group_id, self.instance)
    }

    /// Whether librdkafka's own debugging was asked for.
    pub(super) fn debugs(&self) -> bool {
        self.properties.contains_key("debug")
    }

    fn common(&self, not: &[&str], client_id: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set_log_level(if self.debugs() { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config.set("client.id", client_id).set("log.connection.close", "false");
        // librdkafka's 10 s would keep a broker that is back waiting.
        config.set("reconnect.backoff.max.ms", "2000");
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::properties::tests::settings;
    use super::*;

    #[test]
    fn the_user_goes_before_the_defaults_under_any_name_and_the_service_before_the_user() {
        let settings = settings(&[
            ("queue.buffering.max.ms", "50"),
            ("compression.type", "zstd"),
            ("isolation.level", "read_uncommitted"),
            ("fetch.max.bytes", "200000000"),
            ("group.instance.id", "pod-1"),
        ]);
        let producer = settings.producer(3, true, &RecordLimits::unasked(&settings));
        assert_eq!(producer.get("linger.ms"), None);
        assert_eq!(producer.get("queue.buffering.max.ms"), Some("50"));
        assert_eq!(producer.get("compression.type"), Some("zstd"));
        assert_eq!(producer.get("transactional.id"), Some("group/a/3"));
        assert_eq!(producer.get("transaction.timeout.ms"), Some("30000"));
        assert_eq!(producer.get("fetch.max.bytes"), None);
        assert_eq!(producer.get("batch.size"), Some("1000000"));
        let consumer = settings.consumer(3);
        assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
        assert_eq!(consumer.get("compression.type"), None);
        assert_eq!(consumer.get("group.instance.id"), Some("pod-1-3"));
        assert_eq!(consumer.get("session.timeout.ms"), Some("10000"));
        assert_eq!(settings.reader("restore").get("group.instance.id"), None);
        assert_eq!(consumer.get("receive.message.max.bytes"), Some("200001024"));
    }

    proptest! {
        #[test]
        fn no_two_workers_have_one_transactional_id(
            one in ("[a/-]{1,5}", "[a-]{1,4}", 0..12_usize),
            other in ("[a/-]{1,5}", "[a-]{1,4}", 0..12_usize),
        ) {
            let id = |(group, instance, slot): &(String, String, usize)| {
                let settings = Settings { group_id: group.clone(), instance: instance.clone(), ..settings(&[]) };
                let producer = settings.producer(*slot, true, &RecordLimits::unasked(&settings));
                producer.get("transactional.id").map(ToOwned::to_owned)
            };
            prop_assert_eq!(one == other, id(&one) == id(&other));
        }
    }
}
