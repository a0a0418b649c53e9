//! Somebody with the rights to do harm, and to mend it.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::service::Deployment;
use crate::wait::{PATIENCE, until_true};

/// Acts on the topics and the group of a deployment.
pub struct Operator<'a> {
    deployment: &'a Deployment,
    client: ClientConfig,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Operator<'a> {
    pub fn of(deployment: &'a Deployment) -> Self {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", &deployment.bootstrap).set("group.id", &deployment.name);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { deployment, client, runtime }
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client.create().expect("an admin client")
    }

    fn consumer(&self) -> BaseConsumer {
        self.client.create().expect("a consumer")
    }

    /// The group's committed offsets.
    pub fn committed(&self) -> BTreeMap<i32, i64> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(&self.deployment.topic("events"), 0, self.deployment.shape.partitions - 1);
        let committed = self.consumer().committed_offsets(asked, PATIENCE).expect("the broker answers");
        let offset = |offset: Offset| offset.to_raw().expect("every partition was committed");
        committed.elements().iter().map(|element| (element.partition(), offset(element.offset()))).collect()
    }

    /// The offsets that the group has not committed, as a monitor of lag counts them; `None` while it never committed.
    pub fn lag(&self) -> Option<i64> {
        let ends = self.ends();
        let mut asked = TopicPartitionList::new();
        for partition in ends.keys() {
            asked.add_partition(&self.deployment.topic("events"), *partition);
        }
        let committed = self.consumer().committed_offsets(asked, PATIENCE).expect("the broker answers");
        let lag = |element: &TopicPartitionListElem<'_>| match element.offset() {
            Offset::Offset(offset) => Some(ends[&element.partition()] - offset),
            _ => None,
        };
        committed.elements().iter().map(lag).sum()
    }

    /// Where the partitions of the events topic end.
    pub fn ends(&self) -> BTreeMap<i32, i64> {
        let (consumer, topic) = (self.consumer(), self.deployment.topic("events"));
        let end = |partition| consumer.fetch_watermarks(&topic, partition, PATIENCE).expect("the broker answers").1;
        (0..self.deployment.shape.partitions).map(|partition| (partition, end(partition))).collect()
    }

    /// Deletes what stands below these offsets of the events topic.
    pub fn delete_events_below(&self, offsets: &BTreeMap<i32, i64>) {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let position = Offset::Offset(*offset);
            list.add_partition_offset(&self.deployment.topic("events"), *partition, position).expect("an offset");
        }
        let deleted = self.runtime.block_on(self.admin().delete_records(&list, &AdminOptions::new()));
        deleted.expect("records can be deleted");
    }

    /// As `kafka-consumer-groups --reset-offsets` does it.
    pub fn set_offsets(&self, offsets: &BTreeMap<i32, i64>) {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let position = Offset::Offset(*offset);
            list.add_partition_offset(&self.deployment.topic("events"), *partition, position).expect("an offset");
        }
        self.consumer().commit(&list, CommitMode::Sync).expect("an empty group's offsets can be set");
    }

    /// Deletes what stands in the changelog but each partition's last commit, as retention by time would.
    pub fn truncate_changelog(&self) {
        let changelog = self.deployment.topic("changelog");
        let consumer = self.consumer();
        let mut list = TopicPartitionList::new();
        for partition in 0..self.deployment.shape.partitions {
            let (_, end) = consumer.fetch_watermarks(&changelog, partition, PATIENCE).expect("the broker answers");
            // Its checkpoint and the marker of its transaction.
            list.add_partition_offset(&changelog, partition, Offset::Offset(end - 2)).expect("an offset");
        }
        self.configure_changelog(&[("cleanup.policy", "delete")]);
        let deleted = self.runtime.block_on(self.admin().delete_records(&list, &AdminOptions::new()));
        deleted.expect("records can be deleted");
        self.configure_changelog(&[("cleanup.policy", "compact")]);
    }

    pub fn write_checkpoint_of_a_newer_release(&self) {
        let producer: BaseProducer = self.client.create().expect("a producer");
        let changelog = self.deployment.topic("changelog");
        let record = BaseRecord::to(&changelog).partition(0).key("T").payload(&[u8::MAX]);
        producer.send(record).map_err(|(error, _)| error).expect("the record is queued");
        producer.flush(PATIENCE).expect("the record is delivered");
    }

    /// Sets properties of the changelog; the others go back to their defaults.
    pub fn configure_changelog(&self, properties: &[(&str, &str)]) {
        let changelog = self.deployment.topic("changelog");
        let alter = AlterConfig::new(ResourceSpecifier::Topic(&changelog));
        let alter = properties.iter().fold(alter, |alter, (name, value)| alter.set(name, value));
        let altered = self.runtime.block_on(self.admin().alter_configs([&alter], &AdminOptions::new()));
        altered.expect("the broker answers").remove(0).expect("the property can be set");
    }

    pub fn delete_topic(&self, kind: &str) {
        let name = self.deployment.topic(kind);
        let admin = self.admin();
        let deleted = self.runtime.block_on(admin.delete_topics(&[&name], &AdminOptions::new()));
        deleted.expect("the broker answers").remove(0).expect("the topic can be deleted");
        until_true("the topic is gone", || {
            let metadata = admin.inner().fetch_metadata(None, Duration::from_secs(5)).expect("the broker answers");
            metadata.topics().iter().all(|topic| topic.name() != name)
        });
    }
}
