//! Restores: `worker::ChangelogReader` over librdkafka.
//!
//! ```text
//! open: high watermark, pending transactions included -> Settling -> last stable offset has come so far -> Reading
//! Reading: from the beginning, committed records -> the first end of the partition -> Done
//! ```
//! The end of the partition is a last stable offset at or past that high watermark, so no decided record is missed. The
//! offsets of records say nothing of the end: transaction markers and compaction take some.

use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{ClientConfig, Message, Offset as Position, TopicPartitionList};
use tracing::debug;

use super::client::{Deadline, drop_within};
use super::config::Isolation;
use super::context::Logging;
use super::errors;
use super::settings::{Settings, Topics};
use crate::ids::{Offset, Partition};
use crate::worker::{BrokerError, RestoreProgress};

/// For one question about watermarks, which a healthy broker answers in milliseconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The least that such a question gets within a read's budget.
const LEAST_LOOKUP: Duration = Duration::from_millis(500);
/// Between two looks at a transaction that is not decided.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Records of other partitions that one read may leave for theirs; past it their turn comes first.
const MAX_BUFFERED_BYTES: usize = 8 << 20;

/// Takes key and value.
type Visit<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>);

/// Reads changelog partitions: any number at once, each in its turn.
pub struct Changelog {
    settings: Settings,
    topic: String,
    /// Made at the first restore, dropped with the last.
    clients: Option<Clients>,
    restores: BTreeMap<Partition, Restore>,
    buffered_bytes: usize,
}

struct Clients {
    /// See every record, and only decided ones.
    uncommitted: BaseConsumer<Logging>,
    committed: BaseConsumer<Logging>,
    reader: BaseConsumer<Logging>,
}

enum Restore {
    /// Transactions below `end` are not all decided.
    Settling {
        end: Offset,
    },
    Reading(Reading),
    Done,
}

#[derive(Default)]
struct Reading {
    /// Key and value of records that came in another partition's turn.
    buffer: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    ended: bool,
}

impl Changelog {
    /// A reader of the changelog topic. Connects at the first `open`.
    #[must_use]
    pub fn new(settings: &Settings, topics: &Topics) -> Self {
        Self {
            settings: settings.clone(),
            topic: topics.changelog.clone(),
            clients: None,
            restores: BTreeMap::new(),
            buffered_bytes: 0,
        }
    }

    fn connect(&mut self) -> Result<(), BrokerError> {
        if self.clients.is_none() {
            let make = |config: &ClientConfig| {
                BaseConsumer::from_config_and_context(config, Logging)
                    .map_err(|error| errors::creation("changelog", &error))
            };
            self.clients = Some(Clients {
                uncommitted: make(&self.settings.prober(Isolation::ReadUncommitted))?,
                committed: make(&self.settings.prober(Isolation::ReadCommitted))?,
                // A task waits for the end of its changelog, so the broker is not to wait for more.
                reader: make(self.settings.reader("restore").set("fetch.wait.max.ms", "50"))?,
            });
        }
        Ok(())
    }

    fn clients(&self) -> Result<&Clients, BrokerError> {
        self.clients.as_ref().ok_or_else(|| BrokerError::Fatal("no changelog partition is open".into()))
    }

    fn start_reading(&mut self, partition: Partition) -> Result<(), BrokerError> {
        let list = self.list(partition)?;
        let reader = &self.clients()?.reader;
        reader.incremental_assign(&list).map_err(|error| errors::other("assign changelog", &error))?;
        self.restores.insert(partition, Restore::Reading(Reading::default()));
        Ok(())
    }

    fn list(&self, partition: Partition) -> Result<TopicPartitionList, BrokerError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition.0, Position::Beginning)
            .map_err(|error| errors::other("assign changelog", &error))?;
        Ok(list)
    }

    /// Hands over what other turns left for this partition; whether that was all of it.
    fn drain(&mut self, partition: Partition, visit: Visit<'_>) -> bool {
        let Some(Restore::Reading(reading)) = self.restores.get_mut(&partition) else { return false };
        for (key, value) in reading.buffer.drain(..) {
            self.buffered_bytes -= bytes(&key, value.as_deref());
            visit(&key, value.as_deref());
        }
        reading.ended
    }

    /// Polls once; what is not for this partition is kept for its own turn.
    fn poll(&mut self, partition: Partition, timeout: Duration, visit: Visit<'_>) -> Result<(), BrokerError> {
        let clients = self.clients.as_ref().expect("the clients are there while a restore is open");
        match clients.reader.poll(timeout) {
            None => {}
            Some(Ok(message)) => {
                let (key, value) = (message.key().unwrap_or_default(), message.payload());
                let of = Partition(message.partition());
                if of == partition {
                    visit(key, value);
                } else if let Some(Restore::Reading(reading)) = self.restores.get_mut(&of) {
                    self.buffered_bytes += bytes(key, value);
                    reading.buffer.push_back((key.to_vec(), value.map(<[u8]>::to_vec)));
                }
            }
            Some(Err(KafkaError::PartitionEOF(of))) => {
                if let Some(Restore::Reading(reading)) = self.restores.get_mut(&Partition(of)) {
                    reading.ended = true;
                }
            }
            Some(Err(error)) => return Err(unreadable(&error, &self.topic, &self.settings.group_id)),
        }
        Ok(())
    }

    /// Takes a partition from the reader.
    fn stop_reading(&mut self, reading: &Reading, partition: Partition) {
        self.buffered_bytes -= reading.buffer.iter().map(|(key, value)| bytes(key, value.as_deref())).sum::<usize>();
        if let (Ok(list), Ok(clients)) = (self.list(partition), self.clients())
            && let Err(error) = clients.reader.incremental_unassign(&list)
        {
            debug!(%partition, %error, "changelog partition was not given back");
        }
    }
}

fn bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len)
}

/// The low and the high watermark; for a read_committed client the latter is the last stable offset.
fn watermarks(
    client: &BaseConsumer<Logging>,
    topic: &str,
    partition: Partition,
    timeout: Duration,
) -> Result<(Offset, Offset), BrokerError> {
    // Serves the client's logs, which nobody else does.
    drop(client.poll(Duration::ZERO));
    match client.fetch_watermarks(topic, partition.0, timeout) {
        Ok((low, high)) => Ok((Offset(low), Offset(high))),
        Err(error) => Err(errors::lookup(&format!("watermarks of {topic}[{partition}]"), &error)),
    }
}

impl crate::worker::ChangelogReader for Changelog {
    fn open(&mut self, partition: Partition) -> Result<(), BrokerError> {
        self.stop(partition);
        self.connect()?;
        let (low, end) = watermarks(&self.clients()?.uncommitted, &self.topic, partition, LOOKUP_TIMEOUT)?;
        debug!(%partition, %low, %end, "changelog restore opened");
        let restore = if low == end { Restore::Done } else { Restore::Settling { end } };
        self.restores.insert(partition, restore);
        Ok(())
    }

    fn read(
        &mut self,
        partition: Partition,
        budget: Duration,
        visit: &mut dyn FnMut(&[u8], Option<&[u8]>),
    ) -> Result<RestoreProgress, BrokerError> {
        let deadline = Deadline::after(budget);
        loop {
            match self.restores.get(&partition) {
                None => return Err(BrokerError::Fatal(format!("changelog partition {partition} is not open"))),
                Some(Restore::Done) => return Ok(RestoreProgress::Done),
                Some(Restore::Settling { end }) => {
                    let end = *end;
                    let timeout = deadline.remaining().max(LEAST_LOOKUP);
                    let (_, stable) = watermarks(&self.clients()?.committed, &self.topic, partition, timeout)?;
                    if stable >= end {
                        self.start_reading(partition)?;
                    } else {
                        thread::sleep(SETTLE_PAUSE.min(deadline.remaining()));
                    }
                }
                Some(Restore::Reading(_)) => {
                    if self.drain(partition, visit) {
                        if let Some(Restore::Reading(reading)) = self.restores.insert(partition, Restore::Done) {
                            self.stop_reading(&reading, partition);
                        }
                        return Ok(RestoreProgress::Done);
                    }
                    if self.buffered_bytes >= MAX_BUFFERED_BYTES {
                        return Ok(RestoreProgress::Restoring);
                    }
                    self.poll(partition, deadline.remaining(), visit)?;
                }
            }
            if deadline.passed() {
                return Ok(RestoreProgress::Restoring);
            }
        }
    }

    fn close(&mut self, partition: Partition) {
        self.stop(partition);
        if self.restores.is_empty()
            && let Some(clients) = self.clients.take()
        {
            drop_within(clients, CLOSE_TIMEOUT, "changelog reader");
        }
    }
}

impl Changelog {
    fn stop(&mut self, partition: Partition) {
        if let Some(Restore::Reading(reading)) = self.restores.remove(&partition) {
            self.stop_reading(&reading, partition);
        }
    }
}

impl Drop for Changelog {
    fn drop(&mut self) {
        if let Some(clients) = self.clients.take() {
            drop_within(clients, CLOSE_TIMEOUT, "changelog reader");
        }
    }
}

fn unreadable(error: &KafkaError, topic: &str, group: &str) -> BrokerError {
    match errors::consumption(error, topic, group) {
        // Only the reader's own start can be out of range, while the broker deletes old records; it starts anew.
        BrokerError::RecordsLost(text) if error.rdkafka_error_code() == Some(Code::OffsetOutOfRange) => {
            BrokerError::Retriable(text)
        }
        BrokerError::RecordsLost(text) => BrokerError::Fatal(text),
        other => other,
    }
}
