//! Restores: `worker::ChangelogReader` over librdkafka.
//!
//! ```text
//! open: high watermark, pending transactions included -> Settling -> last stable offset has come so far -> Reading
//! Reading: from the beginning, committed records -> the first end of the partition -> Done
//! ```
//! The end of the partition is a last stable offset at or past that high watermark, so no decided record is missed. The
//! offsets of records say nothing of the end: transaction markers and compaction take some.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Message, Offset as Position, TopicPartitionList};
use tracing::debug;

use super::client::{Deadline, drop_within};
use super::config::Isolation;
use super::context::Logging;
use super::errors;
use super::settings::{Settings, Topics};
use crate::ids::{Offset, Partition};
use crate::worker::{BrokerError, RestoreProgress};

/// For one question about watermarks, which a healthy broker answers in milliseconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The least that such a question gets within a read's budget.
const LEAST_LOOKUP: Duration = Duration::from_millis(500);
/// Between two looks at a transaction that is not decided.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads changelog partitions. Each partition that is being restored has a client of its own.
pub struct Changelog {
    settings: Settings,
    topic: String,
    /// See every record, and only decided ones; made at the first restore, dropped with the last.
    probes: Option<Probes>,
    restores: BTreeMap<Partition, Restore>,
}

struct Probes {
    uncommitted: BaseConsumer<Logging>,
    committed: BaseConsumer<Logging>,
}

enum Restore {
    /// Transactions below `end` are not all decided.
    Settling {
        end: Offset,
    },
    Reading(Box<BaseConsumer<Logging>>),
    Done,
}

impl Changelog {
    /// A reader of the changelog topic. Connects at the first `open`.
    #[must_use]
    pub fn new(settings: &Settings, topics: &Topics) -> Self {
        Self { settings: settings.clone(), topic: topics.changelog.clone(), probes: None, restores: BTreeMap::new() }
    }

    fn probes(&mut self) -> Result<&Probes, BrokerError> {
        if self.probes.is_none() {
            self.probes = Some(Probes {
                uncommitted: self.probe(Isolation::ReadUncommitted)?,
                committed: self.probe(Isolation::ReadCommitted)?,
            });
        }
        Ok(self.probes.as_ref().expect("the probes were just made"))
    }

    fn probe(&self, isolation: Isolation) -> Result<BaseConsumer<Logging>, BrokerError> {
        BaseConsumer::from_config_and_context(&self.settings.prober(isolation), Logging)
            .map_err(|error| errors::other("changelog", &error))
    }

    fn reader(&self, partition: Partition) -> Result<BaseConsumer<Logging>, BrokerError> {
        let client = BaseConsumer::from_config_and_context(&self.settings.reader("restore"), Logging)
            .map_err(|error| errors::other("changelog", &error))?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition.0, Position::Beginning)
            .and_then(|()| client.assign(&list))
            .map_err(|error| errors::other("assign changelog", &error))?;
        Ok(client)
    }
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
        self.close(partition);
        let topic = self.topic.clone();
        let (low, end) = watermarks(&self.probes()?.uncommitted, &topic, partition, LOOKUP_TIMEOUT)?;
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
                    let topic = self.topic.clone();
                    let timeout = deadline.remaining().max(LEAST_LOOKUP);
                    let (_, stable) = watermarks(&self.probes()?.committed, &topic, partition, timeout)?;
                    if stable >= end {
                        let reader = self.reader(partition)?;
                        self.restores.insert(partition, Restore::Reading(Box::new(reader)));
                    } else {
                        thread::sleep(SETTLE_PAUSE.min(deadline.remaining()));
                    }
                }
                Some(Restore::Reading(client)) => match client.poll(deadline.remaining()) {
                    None => {}
                    Some(Ok(message)) => visit(message.key().unwrap_or_default(), message.payload()),
                    Some(Err(KafkaError::PartitionEOF(_))) => {
                        if let Some(Restore::Reading(client)) = self.restores.insert(partition, Restore::Done) {
                            drop_within(client, CLOSE_TIMEOUT, "changelog reader");
                        }
                    }
                    Some(Err(error)) => return Err(unreadable(&error, &self.topic, &self.settings.group_id)),
                },
            }
            if deadline.passed() && !matches!(self.restores.get(&partition), Some(Restore::Done)) {
                return Ok(RestoreProgress::Restoring);
            }
        }
    }

    fn close(&mut self, partition: Partition) {
        if let Some(Restore::Reading(client)) = self.restores.remove(&partition) {
            drop_within(client, CLOSE_TIMEOUT, "changelog reader");
        }
        if self.restores.is_empty()
            && let Some(probes) = self.probes.take()
        {
            drop_within(probes, CLOSE_TIMEOUT, "changelog probes");
        }
    }
}

impl Drop for Changelog {
    fn drop(&mut self) {
        let restores = std::mem::take(&mut self.restores);
        drop_within((restores, self.probes.take()), CLOSE_TIMEOUT, "changelog");
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
