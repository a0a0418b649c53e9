//! The embedded broker of the demo and of quick tests: librdkafka's mock cluster, in this process.
//!
//! It speaks Kafka's protocol, but neither hides aborted records nor stores transactional offsets nor fences, keeps about
//! 5 MB a partition, and answers no admin request: nothing about exactly-once may be claimed from it.

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::errors;
use super::settings::Topics;
use crate::worker::BrokerError;

/// A broker that lives as long as this value.
pub struct EmbeddedBroker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl EmbeddedBroker {
    /// Starts one broker on a free port of the loopback interface.
    ///
    /// # Errors
    /// `Fatal` when it can't listen.
    pub fn start() -> Result<Self, BrokerError> {
        let cluster = MockCluster::new(1).map_err(|error| errors::other("embedded broker", &error))?;
        Ok(Self { cluster })
    }

    /// Where it listens, as `host:port`.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// `Fatal` when it exists.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), BrokerError> {
        self.cluster.create_topic(name, partitions, 1).map_err(|error| errors::other(name, &error))
    }

    /// Makes the four topics of the service with `topics.partitions` partitions each.
    ///
    /// # Errors
    /// `Fatal` when one exists.
    pub fn create_topics(&self, topics: &Topics) -> Result<(), BrokerError> {
        [&topics.events, &topics.changelog, &topics.bundles, &topics.dead_letters]
            .into_iter()
            .try_for_each(|name| self.create_topic(name, topics.partitions))
    }

    /// Cuts all connections and takes no new ones; `up` ends that.
    ///
    /// # Errors
    /// `Fatal` when the broker does not obey.
    #[cfg(test)]
    pub fn down(&self) -> Result<(), BrokerError> {
        self.cluster.broker_down(-1).map_err(|error| errors::other("embedded broker", &error))
    }

    /// Takes connections again.
    ///
    /// # Errors
    /// `Fatal` when the broker does not obey.
    #[cfg(test)]
    pub fn up(&self) -> Result<(), BrokerError> {
        self.cluster.broker_up(-1).map_err(|error| errors::other("embedded broker", &error))
    }
}
