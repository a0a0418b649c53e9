//! Reads the bundles topic, for the run view: every partition, committed records only; the last ones first, where that
//! is asked for. Tells when what was read is not what is there any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Message, Offset as Position, TopicPartitionList};

use super::client::{Deadline, drop_within};
use super::context::Logging;
use super::denial::Denial;
use super::errors;
use super::settings::{Settings, Topics};
use crate::time::Timestamp;
use crate::worker::BrokerError;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it looks for partitions that were added, and for records that are gone.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What became of records that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// Some were deleted: by retention, or by hand.
    Some,
    /// All, with their topic; there may be another one of its name.
    All,
}

/// A record of the bundles topic.
#[derive(Clone, Copy, Debug)]
pub struct BundleRecord<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Its own timestamp.
    pub written_at: Timestamp,
}

/// A reader outside any group: every replica of the service reads everything.
pub struct BundleReader {
    /// `None` only while dropped.
    client: Option<BaseConsumer<Logging>>,
    topic: String,
    group: String,
    /// What was written before is left out, in the partitions that are there at the start.
    since: Option<Timestamp>,
    /// The first offset that is read, by partition, where that is not the beginning.
    starts: BTreeMap<i32, i64>,
    /// The offset that is not read any more, by partition; for a reader of what another one left out.
    ends: BTreeMap<i32, i64>,
    is_assigned: bool,
    assigned: BTreeSet<i32>,
    /// Partitions whose end was not reached since the start.
    behind: BTreeSet<i32>,
    look_again: Deadline,
    /// Where each partition began when it was assigned.
    began: BTreeMap<i32, i64>,
    /// The offset after the last record read, by partition.
    next: BTreeMap<i32, i64>,
    /// The newest timestamp read, by partition.
    newest: BTreeMap<i32, Timestamp>,
    /// A timestamp that was read, and the offset that the broker has for it: as long as the partition is the same one.
    marks: BTreeMap<i32, (Timestamp, i64)>,
    gone: Option<Gone>,
    denial: Denial,
}

impl BundleReader {
    /// A reader of the whole topic. Connects in the background.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn new(settings: &Settings, topics: &Topics) -> Result<Self, BrokerError> {
        let mut config = settings.reader("bundles");
        // Read on from elsewhere, records would be counted twice or left out.
        config.set("auto.offset.reset", "error");
        let client = BaseConsumer::from_config_and_context(&config, Logging::of(settings))
            .map_err(|error| errors::creation("bundle reader", &error))?;
        Ok(Self {
            client: Some(client),
            topic: topics.bundles.clone(),
            group: settings.group_id.clone(),
            since: None,
            starts: BTreeMap::new(),
            ends: BTreeMap::new(),
            is_assigned: false,
            assigned: BTreeSet::new(),
            behind: BTreeSet::new(),
            look_again: Deadline::after(Duration::ZERO),
            began: BTreeMap::new(),
            next: BTreeMap::new(),
            newest: BTreeMap::new(),
            marks: BTreeMap::new(),
            gone: None,
            denial: Denial::default(),
        })
    }

    /// A reader of what was written at `since` or later; [`Self::earlier`] reads the rest.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn since(settings: &Settings, topics: &Topics, since: Timestamp) -> Result<Self, BrokerError> {
        let mut reader = Self::new(settings, topics)?;
        reader.since = Some(since);
        Ok(reader)
    }

    /// A reader of what this one left out at its start. To be asked for once this one has caught up.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn earlier(&self, settings: &Settings, topics: &Topics) -> Result<Self, BrokerError> {
        let mut earlier = Self::new(settings, topics)?;
        // It has no business with partitions that are added.
        earlier.look_again = Deadline::after(Duration::MAX);
        earlier.assign(self.starts.keys().map(|partition| (*partition, Position::Beginning)))?;
        earlier.ends.clone_from(&self.starts);
        Ok(earlier)
    }

    /// Reads for up to `timeout` and hands each record to `visit`; returns early once nothing is left for now.
    ///
    /// # Errors
    /// `Retriable` while the broker or topic is not there, `Fatal` when the topic can't be read.
    pub fn poll(&mut self, timeout: Duration, visit: &mut dyn FnMut(BundleRecord<'_>)) -> Result<(), BrokerError> {
        let deadline = Deadline::after(timeout);
        if self.look_again.passed() {
            self.look()?;
        }
        loop {
            let client = self.client.as_ref().expect("the client is there until the drop");
            match client.poll(deadline.remaining()) {
                None => self.denial.repeated()?,
                Some(Ok(message)) => {
                    self.denial.clear();
                    let partition = message.partition();
                    if self.ends.get(&partition).is_some_and(|end| message.offset() >= *end) {
                        drop(message);
                        self.leave(partition)?;
                        if self.caught_up() {
                            return Ok(());
                        }
                    } else {
                        self.next.insert(partition, message.offset() + 1);
                        let written_at = Timestamp(message.timestamp().to_millis().unwrap_or_default());
                        let newest = self.newest.entry(partition).or_insert(written_at);
                        *newest = written_at.max(*newest);
                        let (key, value) = (message.key().unwrap_or_default(), message.payload().unwrap_or_default());
                        visit(BundleRecord { key, value, written_at });
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    self.denial.clear();
                    self.behind.remove(&partition);
                    if self.caught_up() {
                        if self.marks.is_empty() {
                            // What was read is known again before anybody is told of it.
                            let _ = self.look_for_gone();
                        }
                        return Ok(());
                    }
                }
                Some(Err(error)) => {
                    if errors::is_unknown(&error) {
                        self.gone = Some(Gone::All);
                    }
                    return Err(match errors::consumption(&error, &self.topic, &self.group) {
                        BrokerError::RecordsLost(text) => {
                            self.gone = Some(Gone::All);
                            BrokerError::Fatal(text)
                        }
                        other => self.denial.note(other),
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
        self.is_assigned && self.behind.is_empty()
    }

    /// What became of records that this reader read; only another one reads what is there.
    #[must_use]
    pub fn gone(&self) -> Option<Gone> {
        self.gone
    }

    fn client(&self) -> &BaseConsumer<Logging> {
        self.client.as_ref().expect("the client is there until the drop")
    }

    /// Takes the topic's partitions that are not read yet.
    fn look(&mut self) -> Result<(), BrokerError> {
        let client = self.client();
        client.context().login.await_answer(|timeout| drop(client.poll(timeout)));
        let metadata = client
            .fetch_metadata(Some(&self.topic), LOOKUP_TIMEOUT)
            .map_err(|error| errors::lookup(&format!("topic {}", self.topic), &error))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        if let Some(code) = topic.and_then(|topic| topic.error()).map(Code::from) {
            let error = KafkaError::MetadataFetch(code);
            if errors::is_unknown(&error) && !self.assigned.is_empty() {
                self.gone = Some(Gone::All);
            }
            return Err(errors::lookup(&format!("topic {}", self.topic), &error));
        }
        let found: Vec<i32> =
            topic.into_iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect();
        if found.is_empty() {
            return Err(BrokerError::Retriable(format!("topic {} is not there (yet)", self.topic)));
        }
        let added: Vec<i32> = found.into_iter().filter(|partition| !self.assigned.contains(partition)).collect();
        if let (Some(since), true) = (self.since, self.assigned.is_empty()) {
            self.starts = self.starts_since(since, &added)?;
        }
        let start = |partition| self.starts.get(&partition).map_or(Position::Beginning, |at| Position::Offset(*at));
        let starts: Vec<_> = added.into_iter().map(|partition| (partition, start(partition))).collect();
        self.assign(starts.into_iter())?;
        self.look_again = Deadline::after(LOOK_EVERY);
        // A partition without a leader holds up no other: what can't be answered now is asked the next time.
        let _ = self.look_for_gone();
        Ok(())
    }

    /// Compares what is there with what was read.
    fn look_for_gone(&mut self) -> Result<(), BrokerError> {
        let assigned = || self.assigned.iter().copied();
        let begins = self.offsets(assigned().map(|partition| (partition, Position::Beginning)))?;
        let ends = self.offsets(assigned().map(|partition| (partition, Position::End)))?;
        let at = |(partition, (time, _)): (&i32, &(Timestamp, i64))| (*partition, Position::Offset(time.0));
        let marked = self.offsets(self.marks.iter().map(at))?;
        let newest = self.newest.iter().filter(|(partition, _)| self.assigned.contains(partition));
        let new_marks = self.offsets(newest.map(|(partition, time)| (*partition, Position::Offset(time.0))))?;

        let is_before_end = |(partition, next): (&i32, &i64)| ends.get(partition).is_none_or(|end| next <= end);
        let is_where_it_was = |(partition, (_, offset)): (&i32, &(Timestamp, i64))| {
            let has_left = begins.get(partition).is_none_or(|begin| offset < begin);
            has_left || marked.get(partition).is_none_or(|now| now == offset)
        };
        if !(self.next.iter().all(is_before_end) && self.marks.iter().all(is_where_it_was)) {
            self.gone = Some(Gone::All);
        }
        for (partition, begin) in begins {
            if *self.began.entry(partition).or_insert(begin) < begin {
                self.gone.get_or_insert(Gone::Some);
            }
        }
        self.marks = new_marks.into_iter().map(|(partition, at)| (partition, (self.newest[&partition], at))).collect();
        Ok(())
    }

    /// The offsets that the broker has for a time, which is written as an offset, or for the beginning or the end.
    fn offsets(&self, of: impl Iterator<Item = (i32, Position)>) -> Result<BTreeMap<i32, i64>, BrokerError> {
        let mut list = TopicPartitionList::new();
        for (partition, at) in of {
            list.add_partition_offset(&self.topic, partition, at).map_err(lookup)?;
        }
        if list.count() == 0 {
            return Ok(BTreeMap::new());
        }
        // An answer of one broker for all of its partitions; the calls for watermarks ask for each.
        let found = self.client().offsets_for_times(list, LOOKUP_TIMEOUT).map_err(lookup)?;
        let offset = |element: &TopicPartitionListElem<'_>| {
            element.error().map_err(lookup)?;
            Ok(element.offset().to_raw().map(|offset| (element.partition(), offset)))
        };
        found.elements().iter().filter_map(|element| offset(element).transpose()).collect()
    }

    /// Where the records begin that were written at `since` or later, in partitions that have any before.
    fn starts_since(&self, since: Timestamp, partitions: &[i32]) -> Result<BTreeMap<i32, i64>, BrokerError> {
        let mut times = TopicPartitionList::new();
        for partition in partitions {
            times.add_partition_offset(&self.topic, *partition, Position::Offset(since.0)).map_err(lookup)?;
        }
        let found = self.client().offsets_for_times(times, LOOKUP_TIMEOUT).map_err(lookup)?;
        let mut starts = BTreeMap::new();
        for element in found.elements() {
            element.error().map_err(lookup)?;
            let partition = element.partition();
            let (low, high) = self.client().fetch_watermarks(&self.topic, partition, LOOKUP_TIMEOUT).map_err(lookup)?;
            // Without a record as late as that, there is none to read yet.
            let start = match element.offset() {
                Position::Offset(offset) => offset,
                _ => high,
            };
            if start > low {
                starts.insert(partition, start);
            }
        }
        Ok(starts)
    }

    fn assign(&mut self, partitions: impl Iterator<Item = (i32, Position)>) -> Result<(), BrokerError> {
        let mut list = TopicPartitionList::new();
        for (partition, start) in partitions {
            list.add_partition_offset(&self.topic, partition, start).map_err(lookup)?;
        }
        if list.count() > 0 {
            self.client().incremental_assign(&list).map_err(lookup)?;
            let added = list.elements().into_iter().map(|element| element.partition());
            for partition in added {
                self.assigned.insert(partition);
                self.behind.insert(partition);
            }
        }
        self.is_assigned = true;
        Ok(())
    }

    /// Reads a partition no further.
    fn leave(&mut self, partition: i32) -> Result<(), BrokerError> {
        self.behind.remove(&partition);
        if self.assigned.remove(&partition) {
            let mut list = TopicPartitionList::new();
            list.add_partition(&self.topic, partition);
            self.client().incremental_unassign(&list).map_err(lookup)?;
        }
        Ok(())
    }
}

fn lookup(error: KafkaError) -> BrokerError {
    errors::lookup("bundle partitions", &error)
}

impl Drop for BundleReader {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop_within(client, CLOSE_TIMEOUT, "bundle reader");
        }
    }
}
