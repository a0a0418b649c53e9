//! The dead-letter topic as its reader sees it, and the way back from it to the events topic.
//!
//! A record that was sent back is marked by one of its own on the dead-letter topic, in the same transaction: whoever
//! reads the topic to its end knows what was sent back, and an end that came too early leaves no half of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::BaseRecord;
use rdkafka::{ClientConfig, Message, Offset as Position, TopicPartitionList};

use super::client::{Deadline, drop_within};
use super::config::Isolation;
use super::context::Logging;
use super::producer::Producer;
use super::record_limits::RecordLimits;
use super::settings::{DeadLetterPayload, Settings, Topics};
use super::{errors, records};
use crate::ids::{Offset, Partition};
use crate::time::Timestamp;
use crate::worker::{BrokerError, ProcessingGuarantee, Producer as _};

/// How long transactions that are open when the reading begins may take to be decided, and the broker to answer.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
const SETTLE_PAUSE: Duration = Duration::from_millis(50);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Records and bytes of one transaction.
const RECORDS_A_TRANSACTION: usize = 1_000;
const BYTES_A_TRANSACTION: usize = 8 << 20;

/// Of the transactional id, in the place of an instance, of which none is called so: of two that send back at once, the
/// later one goes on alone.
const INSTANCE: &str = "dead-letters/";

/// The header of a record that marks another one as sent back; its value is that one's [`Place`].
const REDRIVEN: &str = "duplex.dead_letter.redriven";

/// Where a record stands on the dead-letter topic: `partition:offset`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub partition: Partition,
    pub offset: Offset,
}

/// One dead letter.
#[derive(Debug)]
pub struct StoredDeadLetter<'a> {
    pub at: Place,
    pub reason: &'a str,
    pub detail: &'a str,
    /// The topic, partition and offset it came from.
    pub topic: &'a str,
    pub partition: Partition,
    pub offset: Offset,
    /// Its own timestamp, before it was a dead letter.
    pub timestamp: Option<Timestamp>,
    pub key: Option<&'a [u8]>,
    /// `None` where it was not kept.
    pub payload: Option<&'a [u8]>,
    pub payload_bytes: u64,
    /// How long the key was, where the dead letter has the beginning of it only.
    pub key_bytes: Option<u64>,
    /// How many headers it had, where the dead letter has none of them.
    pub headers_left_out: Option<u64>,
    /// Its own.
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

/// What stands on the dead-letter topic.
#[derive(Debug)]
pub enum Entry<'a> {
    Letter(StoredDeadLetter<'a>),
    /// The dead letter there was sent back.
    Redriven(Place),
    /// A record that is none of the service's.
    Foreign,
}

/// What became of the dead letters that were to be sent back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Redriven {
    pub sent: u64,
    /// Sent back earlier, and so not now.
    pub earlier: u64,
    /// Their payload was not kept; where key or headers were cut, it never is.
    pub without_payload: u64,
    /// From another topic than the events topic of the configuration.
    pub of_another_topic: u64,
}

/// The dead-letter topic of a deployment.
#[derive(Debug)]
pub struct DeadLetters<'a> {
    settings: &'a Settings,
    topics: &'a Topics,
}

impl<'a> DeadLetters<'a> {
    #[must_use]
    pub fn of(settings: &'a Settings, topics: &'a Topics) -> Self {
        Self { settings, topics }
    }

    /// Hands over every committed record, each partition in order, up to where the topic ended when this began.
    ///
    /// # Errors
    /// `Retriable` where the broker does not answer or a transaction stays open, `Fatal` where the topic can't be read.
    pub fn visit(&self, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BrokerError> {
        self.read(&mut |entry| {
            visit(entry);
            Ok(())
        })
    }

    /// Sends those dead letters back to the events topic that `select` takes: key, value, headers, timestamp and partition
    /// as they were, each once; those sent back earlier only with `force`.
    ///
    /// # Errors
    /// As [`Self::visit`], and `Fenced` where another one sends back at the same time. What was sent until then is marked.
    pub fn redrive(
        &self,
        select: &dyn Fn(&StoredDeadLetter<'_>) -> bool,
        force: bool,
    ) -> Result<Redriven, BrokerError> {
        // First, so that whoever was at it is over before the marks are read.
        let mut way_back = WayBack::open(self.settings, self.topics)?;
        let mut earlier = BTreeSet::new();
        self.visit(&mut |entry| {
            if let Entry::Redriven(at) = entry {
                earlier.insert(at);
            }
        })?;
        let mut redriven = Redriven::default();
        self.read(&mut |entry| {
            let Entry::Letter(letter) = entry else { return Ok(()) };
            if !select(&letter) {
                return Ok(());
            }
            match letter.payload {
                _ if letter.topic != self.topics.events => redriven.of_another_topic += 1,
                _ if earlier.contains(&letter.at) && !force => redriven.earlier += 1,
                None => redriven.without_payload += 1,
                Some(payload) => {
                    way_back.send(&letter, payload)?;
                    redriven.sent += 1;
                }
            }
            Ok(())
        })?;
        way_back.commit()?;
        Ok(redriven)
    }

    fn read(&self, visit: &mut dyn FnMut(Entry<'_>) -> Result<(), BrokerError>) -> Result<(), BrokerError> {
        let mut left = self.settled()?;
        let reader = self.consumer(&self.settings.reader("dead-letters"))?;
        let mut list = TopicPartitionList::new();
        for partition in &left {
            list.add_partition_offset(&self.topics.dead_letters, *partition, Position::Beginning).map_err(lookup)?;
        }
        reader.assign(&list).map_err(lookup)?;
        let read = (|| {
            let mut deadline = Deadline::after(PATIENCE);
            while !left.is_empty() {
                match reader.poll(deadline.remaining()) {
                    Some(Ok(message)) => {
                        deadline = Deadline::after(PATIENCE);
                        // What came since this began would come without end, were the topic busy enough.
                        if left.contains(&message.partition()) {
                            with_entry(&message, visit)?;
                        }
                    }
                    Some(Err(KafkaError::PartitionEOF(partition))) => {
                        left.remove(&partition);
                    }
                    Some(Err(error)) => {
                        return Err(
                            match errors::consumption(&error, &self.topics.dead_letters, &self.settings.group_id) {
                                BrokerError::RecordsLost(text) => BrokerError::Fatal(text),
                                other => other,
                            },
                        );
                    }
                    None => {
                        let topic = &self.topics.dead_letters;
                        let text = format!("topic {topic}: nothing came for {} s", PATIENCE.as_secs());
                        return Err(BrokerError::Retriable(text));
                    }
                }
            }
            Ok(())
        })();
        drop_within(reader, CLOSE_TIMEOUT, "dead-letter reader");
        read
    }

    /// The partitions that have records, once every transaction is decided that was open on them: only then is their first
    /// end behind all that stood on the topic.
    fn settled(&self) -> Result<BTreeSet<i32>, BrokerError> {
        let topic = &self.topics.dead_letters;
        let lookup = |error| errors::lookup(&format!("topic {topic}"), &error);
        let [all, stable] = [Isolation::ReadUncommitted, Isolation::ReadCommitted];
        let (all, stable) = (self.consumer(&self.settings.prober(all))?, self.consumer(&self.settings.prober(stable))?);
        let metadata = all.fetch_metadata(None, LOOKUP_TIMEOUT).map_err(lookup)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
        let Some(found) = found else {
            // Of this topic alone: brokers leave out of the list what the principal may not see.
            let alone = all.fetch_metadata(Some(topic), LOOKUP_TIMEOUT).map_err(lookup)?;
            return Err(match alone.topics().first().and_then(|topic| topic.error()).map(Code::from) {
                Some(code @ Code::TopicAuthorizationFailed) => lookup(KafkaError::MetadataFetch(code)),
                _ => BrokerError::Fatal(format!("topic {topic} does not exist")),
            });
        };
        let mut ends = BTreeMap::new();
        for partition in found.partitions().iter().map(|partition| partition.id()) {
            let (low, high) = all.fetch_watermarks(topic, partition, LOOKUP_TIMEOUT).map_err(lookup)?;
            if low < high {
                ends.insert(partition, high);
            }
        }
        let deadline = Deadline::after(PATIENCE);
        for (partition, end) in &ends {
            while stable.fetch_watermarks(topic, *partition, LOOKUP_TIMEOUT).map_err(lookup)?.1 < *end {
                if deadline.passed() {
                    let text = format!("topic {topic}, partition {partition}: a transaction stays open");
                    return Err(BrokerError::Retriable(text));
                }
                // Serves the client meanwhile.
                drop(stable.poll(SETTLE_PAUSE));
            }
        }
        Ok(ends.into_keys().collect())
    }

    fn consumer(&self, config: &ClientConfig) -> Result<BaseConsumer<Logging>, BrokerError> {
        let client = BaseConsumer::from_config_and_context(config, Logging::of(self.settings))
            .map_err(|error| errors::creation("dead-letter reader", &error))?;
        client.context().login.await_answer(|timeout| drop(client.poll(timeout)));
        Ok(client)
    }
}

fn lookup(error: KafkaError) -> BrokerError {
    errors::lookup("dead-letter topic", &error)
}

fn with_entry(
    message: &BorrowedMessage<'_>,
    visit: &mut dyn FnMut(Entry<'_>) -> Result<(), BrokerError>,
) -> Result<(), BrokerError> {
    let record = records::record(message);
    let header = |name: &str| record.headers.iter().rev().find(|header| header.name == name)?.value;
    let text = |name: &str| str::from_utf8(header(name)?).ok();
    if let Some(at) = text(REDRIVEN).and_then(|at| at.parse().ok()) {
        return visit(Entry::Redriven(at));
    }
    let number = |name: &str| text(name)?.parse::<i64>().ok();
    let count = |name: &str| number(name)?.try_into().ok();
    let letter = || {
        let partition = i32::try_from(number(records::PARTITION)?).ok()?;
        Some(StoredDeadLetter {
            at: Place { partition: record.partition, offset: record.offset },
            reason: text(records::REASON)?,
            detail: text(records::DETAIL).unwrap_or_default(),
            topic: text(records::TOPIC)?,
            partition: Partition(partition),
            offset: Offset(number(records::OFFSET)?),
            timestamp: number(records::TIMESTAMP).map(Timestamp),
            key: record.key,
            payload: record.value,
            payload_bytes: count(records::PAYLOAD_BYTES)
                .unwrap_or_else(|| record.value.map_or(0, |value| value.len() as u64)),
            key_bytes: count(records::KEY_BYTES),
            headers_left_out: count(records::HEADERS),
            headers: record
                .headers
                .iter()
                .filter(|header| !records::ADDED.contains(&header.name))
                .map(|header| (header.name, header.value))
                .collect(),
        })
    };
    visit(letter().map_or(Entry::Foreign, Entry::Letter))
}

/// The transactions that take dead letters back.
struct WayBack<'a> {
    producer: Producer,
    topics: &'a Topics,
    is_open: bool,
    records: usize,
    bytes: usize,
}

impl<'a> WayBack<'a> {
    fn open(settings: &Settings, topics: &'a Topics) -> Result<Self, BrokerError> {
        let settings = Settings { instance: INSTANCE.to_owned(), ..settings.clone() };
        let guarantee = ProcessingGuarantee::ExactlyOnce;
        let mut producer =
            Producer::new(&settings, topics, 0, guarantee, DeadLetterPayload::Keep, RecordLimits::unasked(&settings))?;
        let deadline = Deadline::after(PATIENCE);
        loop {
            match producer.init_transactions() {
                Err(BrokerError::Retriable(_)) if !deadline.passed() => thread::sleep(SETTLE_PAUSE),
                result => break result?,
            }
        }
        Ok(Self { producer, topics, is_open: false, records: 0, bytes: 0 })
    }

    fn send(&mut self, letter: &StoredDeadLetter<'_>, payload: &[u8]) -> Result<(), BrokerError> {
        if !self.is_open {
            self.producer.begin()?;
            self.is_open = true;
        }
        self.producer.queue(BaseRecord {
            topic: &self.topics.events,
            partition: Some(letter.partition.0),
            payload: Some(payload),
            key: letter.key,
            timestamp: letter.timestamp.map(|timestamp| timestamp.0),
            headers: Some(records::owned_headers(letter.headers.iter().copied())),
            delivery_opaque: (),
        })?;
        let at = letter.at.to_string();
        self.producer.queue(BaseRecord {
            // After the dead letter itself, and so not gone before it.
            partition: Some(letter.at.partition.0),
            headers: Some(records::owned_headers([(REDRIVEN, Some(at.as_bytes()))])),
            ..BaseRecord::<[u8], [u8]>::to(&self.topics.dead_letters)
        })?;
        self.records += 1;
        self.bytes += payload.len();
        if self.records >= RECORDS_A_TRANSACTION || self.bytes >= BYTES_A_TRANSACTION {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BrokerError> {
        if self.is_open {
            self.producer.commit()?;
            (self.is_open, self.records, self.bytes) = (false, 0, 0);
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once(':').and_then(|(partition, offset)| {
            Some(Self { partition: Partition(partition.parse().ok()?), offset: Offset(offset.parse().ok()?) })
        });
        parsed.ok_or_else(|| format!("{text:?} is no PARTITION:OFFSET, such as 3:1290"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place = Place { partition: Partition(3), offset: Offset(1_290) };
        assert_eq!(place.to_string().parse(), Ok(place));
        for wrong in ["", "3", "3:", ":5", "a:5", "3:5:7"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
