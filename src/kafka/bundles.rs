//! Reads the whole bundles topic, for the run view: every partition, from the beginning, committed records only.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::{Message, Offset as Position, TopicPartitionList};

use super::client::{Deadline, drop_within};
use super::context::Logging;
use super::errors;
use super::settings::{Settings, Topics};
use crate::worker::BrokerError;

const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
/// How often partitions that were added are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A reader outside any group: every replica of the service reads everything.
pub struct BundleReader {
    /// `None` only while dropped.
    client: Option<BaseConsumer<Logging>>,
    topic: String,
    group: String,
    assigned: BTreeSet<i32>,
    /// Partitions whose end was not reached since the start.
    behind: BTreeSet<i32>,
    look_again: Deadline,
}

impl BundleReader {
    /// A reader of the bundles topic. Connects in the background.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn new(settings: &Settings, topics: &Topics) -> Result<Self, BrokerError> {
        let client = BaseConsumer::from_config_and_context(&settings.reader("bundles"), Logging)
            .map_err(|error| errors::creation("bundle reader", &error))?;
        Ok(Self {
            client: Some(client),
            topic: topics.bundles.clone(),
            group: settings.group_id.clone(),
            assigned: BTreeSet::new(),
            behind: BTreeSet::new(),
            look_again: Deadline::after(Duration::ZERO),
        })
    }

    /// Reads for up to `timeout` and hands each bundle's bytes to `visit`; returns early once nothing is left for now.
    ///
    /// # Errors
    /// `Retriable` while the broker or topic is not there, `Fatal` when the topic can't be read.
    pub fn poll(&mut self, timeout: Duration, visit: &mut dyn FnMut(&[u8])) -> Result<(), BrokerError> {
        let deadline = Deadline::after(timeout);
        if self.look_again.passed() {
            self.look()?;
        }
        loop {
            match self.client().poll(deadline.remaining()) {
                None => {}
                Some(Ok(message)) => visit(message.payload().unwrap_or_default()),
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    self.behind.remove(&partition);
                    if self.behind.is_empty() {
                        return Ok(());
                    }
                }
                Some(Err(error)) => {
                    return Err(match errors::consumption(&error, &self.topic, &self.group) {
                        BrokerError::RecordsLost(text) => BrokerError::Fatal(text),
                        other => other,
                    });
                }
            }
            if deadline.passed() {
                return Ok(());
            }
        }
    }

    /// Whether every partition's end was reached since the start.
    #[must_use]
    pub fn caught_up(&self) -> bool {
        !self.assigned.is_empty() && self.behind.is_empty()
    }

    fn client(&self) -> &BaseConsumer<Logging> {
        self.client.as_ref().expect("the client is there until the drop")
    }

    /// Takes the topic's partitions that are not read yet.
    fn look(&mut self) -> Result<(), BrokerError> {
        let metadata = self
            .client()
            .fetch_metadata(Some(&self.topic), METADATA_TIMEOUT)
            .map_err(|error| errors::lookup("bundle topic", &error))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        let found: Vec<i32> =
            topic.into_iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect();
        if found.is_empty() {
            return Err(BrokerError::Retriable(format!("topic {} is not there (yet)", self.topic)));
        }
        let mut list = TopicPartitionList::new();
        for partition in found.into_iter().filter(|partition| !self.assigned.contains(partition)) {
            list.add_partition_offset(&self.topic, partition, Position::Beginning)
                .map_err(|error| errors::other("bundle partitions", &error))?;
        }
        if list.count() > 0 {
            self.client().incremental_assign(&list).map_err(|error| errors::other("bundle partitions", &error))?;
            let added: Vec<i32> = list.elements().iter().map(|element| element.partition()).collect();
            self.assigned.extend(&added);
            self.behind.extend(&added);
        }
        self.look_again = Deadline::after(LOOK_EVERY);
        Ok(())
    }
}

impl Drop for BundleReader {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop_within(client, CLOSE_TIMEOUT, "bundle reader");
        }
    }
}
