//! The topics as somebody else sees them: plain rdkafka clients, so that the product's own reader is not its judge.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use duplex_collector::cli::capture::CapturedRecord;
use duplex_collector::ids::{Offset as RecordOffset, Partition};
use duplex_collector::kafka::{Settings, Writer};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::expected;
use crate::service::Deployment;
use crate::wait::{PATIENCE, until};

/// What a reader waits out.
const PASSING: [Code; 3] = [Code::AllBrokersDown, Code::BrokerTransportFailure, Code::OperationTimedOut];

/// A record as it stands on a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    pub partition: i32,
    pub offset: i64,
    pub timestamp: Option<i64>,
    pub key: Option<String>,
    pub value: Vec<u8>,
    pub headers: Vec<(String, String)>,
}

/// Reads a whole topic, committed records only.
pub struct Judge {
    consumer: BaseConsumer,
    behind: BTreeSet<i32>,
    pub records: Vec<Stored>,
}

/// Makes the topics whose records keep the events' own timestamps; the service makes the others.
pub fn create_topics(deployment: &Deployment) {
    ["events", "dead-letters"].into_iter().for_each(|kind| create_topic(deployment, kind));
}

/// Makes one of them.
pub fn create_topic(deployment: &Deployment, kind: &str) {
    let admin: AdminClient<DefaultClientContext> = config(&deployment.bootstrap).create().expect("an admin client");
    let name = deployment.topic(kind);
    let topic = NewTopic::new(&name, deployment.shape.partitions, TopicReplication::Fixed(deployment.shape.replicas))
        // The capture is older than a topic's usual retention, which would delete it under the test's feet,
        .set("retention.ms", "-1")
        // and where this machine's clock is behind, it is of the future.
        .set("message.timestamp.after.max.ms", "9223372036854775807");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let made = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new())).expect("the broker answers");
    assert_eq!(made, [Ok(name)]);
}

/// A producer of events.
pub fn writer(deployment: &Deployment) -> Writer {
    let settings = Settings {
        bootstrap_servers: deployment.bootstrap.clone(),
        group_id: deployment.name.clone(),
        instance: "producer".into(),
        oauth_token_file: String::new(),
        properties: BTreeMap::new(),
    };
    Writer::new(&settings).expect("a writer")
}

/// An event of now.
pub fn event(key: &str, value: impl Into<Vec<u8>>) -> CapturedRecord {
    CapturedRecord {
        topic: None,
        partition: Partition(0),
        offset: RecordOffset(0),
        timestamp: Some(expected::now()),
        key: Some(key.into()),
        value: Some(value.into()),
        headers: Vec::new(),
    }
}

/// Sends a record to the events topic.
pub fn send(writer: &mut Writer, deployment: &Deployment, record: &CapturedRecord) {
    let headers: Vec<_> = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let value = record.value.as_deref().expect("an event has a value");
    let topic = deployment.topic("events");
    writer.send(&topic, record.key.as_deref(), value, record.timestamp, &headers).expect("the record is queued");
}

/// Sends all records to the events topic, as fast as can be, and waits until they are there.
pub fn send_all(deployment: &Deployment, records: &[CapturedRecord]) {
    let mut writer = writer(deployment);
    records.iter().for_each(|record| send(&mut writer, deployment, record));
    writer.flush(PATIENCE).expect("the records are delivered");
}

impl Judge {
    /// A reader from the topic's beginning; waits until the topic is there.
    pub fn of(deployment: &Deployment, kind: &str) -> Self {
        let topic = deployment.topic(kind);
        let consumer: BaseConsumer = config(&deployment.bootstrap)
            .set("group.id", format!("{}-judge", deployment.name))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "50")
            .create()
            .expect("a consumer");
        let partitions: BTreeSet<i32> = until("the topic is there", || {
            // Of all topics: a question about one could make the broker create it.
            let metadata = consumer.fetch_metadata(None, Duration::from_secs(5)).ok()?;
            let topic = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none())?;
            Some(topic.partitions().iter().map(|partition| partition.id()).collect())
        });
        let mut list = TopicPartitionList::new();
        for partition in &partitions {
            list.add_partition_offset(&topic, *partition, Offset::Beginning).expect("a position");
        }
        consumer.assign(&list).expect("partitions can be assigned");
        Self { consumer, behind: partitions, records: Vec::new() }
    }

    /// Every committed record of a topic nobody writes to any more.
    pub fn all_of(deployment: &Deployment, kind: &str) -> Vec<Stored> {
        let mut judge = Self::of(deployment, kind);
        until("the topic is read to its end", || {
            judge.read();
            judge.behind.is_empty().then_some(())
        });
        judge.records
    }

    /// Takes what is new; how many records there are now.
    pub fn read(&mut self) -> usize {
        let deadline = Instant::now() + Duration::from_millis(50);
        while let Some(polled) = self.consumer.poll(deadline.saturating_duration_since(Instant::now())) {
            match polled {
                Ok(message) => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
                    self.records.push(Stored {
                        partition: message.partition(),
                        offset: message.offset(),
                        timestamp: message.timestamp().to_millis(),
                        key: message.key().map(text),
                        value: message.payload().unwrap_or_default().to_vec(),
                        headers: headers.map(|h| (h.key.into(), text(h.value.unwrap_or_default()))).collect(),
                    });
                }
                Err(KafkaError::PartitionEOF(partition)) => {
                    self.behind.remove(&partition);
                }
                // A broker may be away, or have handed the partition to another: librdkafka goes on by itself.
                Err(error) if error.rdkafka_error_code().is_some_and(|code| PASSING.contains(&code)) => {}
                Err(error) => panic!("the topic can't be read: {error}"),
            }
        }
        self.records.len()
    }

    /// Reads until there are at least so many records.
    #[track_caller]
    pub fn read_until(&mut self, count: usize) {
        until(&format!("there are {count} records"), || (self.read() >= count).then_some(()));
    }
}

impl Stored {
    /// The record as `kcat -C -J` prints it.
    pub fn as_kcat(&self, topic: &str) -> Value {
        let headers: Vec<_> = self.headers.iter().flat_map(|(name, value)| [name, value]).collect();
        json!({
            "topic": topic, "partition": self.partition, "offset": self.offset, "tstype": "create", "ts": self.timestamp,
            "headers": headers, "key": self.key, "payload": String::from_utf8_lossy(&self.value),
        })
    }
}

/// A client that only knows where Kafka is.
pub fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}
