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
use super::denial::Denial;
use super::errors;
use super::settings::{Settings, Topics};
use super::topics::TopicProblem;
use crate::ids::{Offset, Partition};
use crate::worker::{BrokerError, RestoreProgress};

/// For one question about watermarks, which a healthy broker answers in milliseconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The least that such a question gets within a read's budget.
const LEAST_LOOKUP: Duration = Duration::from_millis(500);
/// Between two looks at a transaction that is not decided.
const SETTLE_PAUSE: Duration = Duration::from_millis(20);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A read that brings nothing for this long asks whether the broker answers: a reader that lost it says so only once.
const SILENCE: Duration = Duration::from_secs(5);

/// Records of other partitions that one read may leave for theirs; past it their turn comes first.
const MAX_BUFFERED_BYTES: usize = 8 << 20;

/// Takes key and value.
type Visit<'a> = &'a mut dyn FnMut(&[u8], Option<&[u8]>);

/// Reads changelog partitions: any number at once, each in its turn.
pub struct Changelog {
    settings: Settings,
    topics: Topics,
    /// Made at the first restore, dropped with the last.
    clients: Option<Clients>,
    restores: BTreeMap<Partition, Restore>,
    buffered_bytes: usize,
    denial: Denial,
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
        low: Offset,
        end: Offset,
    },
    Reading(Reading),
    Done,
}

struct Reading {
    /// The next offset to hand over.
    next: Offset,
    /// The high watermark when the restore began; what came later is read as well.
    end: Offset,
    /// Records that came in another partition's turn.
    buffer: VecDeque<Buffered>,
    ended: bool,
    /// When to ask whether the broker answers.
    silent: Deadline,
}

struct Buffered {
    offset: Offset,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Changelog {
    /// A reader of the changelog topic. Connects at the first `open`.
    #[must_use]
    pub fn new(settings: &Settings, topics: &Topics) -> Self {
        Self {
            settings: settings.clone(),
            topics: topics.clone(),
            clients: None,
            restores: BTreeMap::new(),
            buffered_bytes: 0,
            denial: Denial::default(),
        }
    }

    fn connect(&mut self) -> Result<(), BrokerError> {
        if self.clients.is_none() {
            let make = |config: &ClientConfig| {
                BaseConsumer::from_config_and_context(config, Logging::of(&self.settings))
                    .map_err(|error| errors::creation("changelog", &error))
            };
            self.denial.clear();
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

    fn start_reading(&mut self, partition: Partition, next: Offset, end: Offset) -> Result<(), BrokerError> {
        let list = self.list(partition)?;
        let reader = &self.clients()?.reader;
        reader.incremental_assign(&list).map_err(|error| errors::other("assign changelog", &error))?;
        let silent = Deadline::after(SILENCE);
        let reading = Reading { next, end, buffer: VecDeque::new(), ended: false, silent };
        self.restores.insert(partition, Restore::Reading(reading));
        Ok(())
    }

    fn list(&self, partition: Partition) -> Result<TopicPartitionList, BrokerError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topics.changelog, partition.0, Position::Beginning)
            .map_err(|error| errors::other("assign changelog", &error))?;
        Ok(list)
    }

    /// Hands over what other turns left for this partition; whether that was all of it.
    fn drain(&mut self, partition: Partition, visit: Visit<'_>) -> bool {
        let Some(Restore::Reading(reading)) = self.restores.get_mut(&partition) else { return false };
        for Buffered { offset, key, value } in reading.buffer.drain(..) {
            self.buffered_bytes -= bytes(&key, value.as_deref());
            reading.next = offset.next();
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
                self.denial.clear();
                let (key, value) = (message.key().unwrap_or_default(), message.payload());
                let (of, offset) = (Partition(message.partition()), Offset(message.offset()));
                let Some(Restore::Reading(reading)) = self.restores.get_mut(&of) else { return Ok(()) };
                reading.silent = Deadline::after(SILENCE);
                if of == partition {
                    reading.next = offset.next();
                    visit(key, value);
                } else {
                    self.buffered_bytes += bytes(key, value);
                    let value = value.map(<[u8]>::to_vec);
                    reading.buffer.push_back(Buffered { offset, key: key.to_vec(), value });
                }
            }
            Some(Err(KafkaError::PartitionEOF(of))) => {
                self.denial.clear();
                if let Some(Restore::Reading(reading)) = self.restores.get_mut(&Partition(of)) {
                    reading.ended = true;
                }
            }
            Some(Err(error)) => {
                let error = unreadable(&error, &self.topics.changelog, &self.settings.group_id);
                return Err(self.denial.note(error));
            }
        }
        Ok(())
    }

    /// The low and the high watermark; for a read_committed client the latter is the last stable offset.
    fn watermarks(
        &self,
        client: fn(&Clients) -> &BaseConsumer<Logging>,
        partition: Partition,
        timeout: Duration,
    ) -> Result<(Offset, Offset), BrokerError> {
        let (client, topic) = (client(self.clients()?), &self.topics.changelog);
        // Serves the client's logs, which nobody else does.
        drop(client.poll(Duration::ZERO));
        let (low, high) = client.fetch_watermarks(topic, partition.0, timeout).map_err(|error| {
            let lookup = || errors::lookup(&format!("watermarks of {topic}[{partition}]"), &error);
            errors::is_unknown(&error)
                .then(|| self.too_few_partitions(client, partition))
                .flatten()
                .unwrap_or_else(lookup)
        })?;
        Ok((Offset(low), Offset(high)))
    }

    /// How far the reading of a partition has come, once it is sure that the broker answers.
    fn progress(&mut self, partition: Partition) -> Result<RestoreProgress, BrokerError> {
        let Some(Restore::Reading(reading)) = self.restores.get_mut(&partition) else {
            return Err(not_open(partition));
        };
        let progress = left(reading.next, reading.end);
        self.denial.repeated()?;
        if reading.silent.passed() {
            reading.silent = Deadline::after(SILENCE);
            self.watermarks(|clients| &clients.committed, partition, LEAST_LOOKUP)?;
        }
        Ok(progress)
    }

    /// What is wrong when the changelog is there and has no such partition, as after partitions were added to the events
    /// topic alone.
    fn too_few_partitions(&self, client: &BaseConsumer<Logging>, partition: Partition) -> Option<BrokerError> {
        // Of all topics at once: a question about one topic can make the broker create it.
        let metadata = client.fetch_metadata(None, LOOKUP_TIMEOUT).ok()?;
        let count = |name: &str| {
            let found = metadata.topics().iter().find(|topic| topic.name() == name && topic.error().is_none());
            found.map(|topic| topic.partitions().len()).filter(|count| *count > 0)
        };
        let (changelog, events) = (count(&self.topics.changelog)?, count(&self.topics.events)?);
        let is_missing = usize::try_from(partition.0).is_ok_and(|partition| partition >= changelog);
        (is_missing && changelog < events).then(|| {
            let problem = TopicProblem::Partitions {
                changelog: self.topics.changelog.clone(),
                changelog_partitions: changelog,
                events: self.topics.events.clone(),
                events_partitions: events,
            };
            BrokerError::Misconfigured(problem.to_string())
        })
    }

    /// Takes a partition from the reader.
    fn stop_reading(&mut self, reading: &Reading, partition: Partition) {
        self.buffered_bytes -= reading.buffer.iter().map(|r| bytes(&r.key, r.value.as_deref())).sum::<usize>();
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

fn not_open(partition: Partition) -> BrokerError {
    BrokerError::Fatal(format!("changelog partition {partition} is not open"))
}

/// Offsets from `next` to `end`.
fn left(next: Offset, end: Offset) -> RestoreProgress {
    RestoreProgress::Restoring { left: Some(u64::try_from(end.0 - next.0).unwrap_or(0)) }
}

impl crate::worker::ChangelogReader for Changelog {
    fn open(&mut self, partition: Partition) -> Result<(), BrokerError> {
        self.stop(partition);
        self.connect()?;
        let (low, end) = self.watermarks(|clients| &clients.uncommitted, partition, LOOKUP_TIMEOUT)?;
        debug!(%partition, %low, %end, "changelog restore opened");
        let restore = if low == end { Restore::Done } else { Restore::Settling { low, end } };
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
                None => return Err(not_open(partition)),
                Some(Restore::Done) => return Ok(RestoreProgress::Done),
                Some(Restore::Settling { low, end }) => {
                    let (low, end) = (*low, *end);
                    let timeout = deadline.remaining().max(LEAST_LOOKUP);
                    let (_, stable) = self.watermarks(|clients| &clients.committed, partition, timeout)?;
                    if stable >= end {
                        self.start_reading(partition, low, end)?;
                    } else {
                        thread::sleep(SETTLE_PAUSE.min(deadline.remaining()));
                    }
                    if deadline.passed() {
                        return Ok(left(low, end));
                    }
                }
                Some(Restore::Reading(_)) => {
                    if self.drain(partition, visit) {
                        if let Some(Restore::Reading(reading)) = self.restores.insert(partition, Restore::Done) {
                            self.stop_reading(&reading, partition);
                        }
                        return Ok(RestoreProgress::Done);
                    }
                    let is_full = self.buffered_bytes >= MAX_BUFFERED_BYTES;
                    if !is_full {
                        self.poll(partition, deadline.remaining(), visit)?;
                    }
                    if is_full || deadline.passed() {
                        return self.progress(partition);
                    }
                }
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
