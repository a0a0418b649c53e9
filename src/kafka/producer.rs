//! The transactional producer: `worker::Producer` over librdkafka.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, PurgeConfig};
use tracing::warn;

use super::client::{Deadline, call_within, drop_within};
use super::consumer::GroupMetadata;
use super::record_limits::RecordLimits;
use super::settings::{DeadLetterPayload, Settings, Topics};
use super::transaction::{self, Deliveries};
use super::{errors, offsets, record_limits, records};
use crate::ids::{Offset, Partition};
use crate::limiter;
use crate::task::DeadLetter;
use crate::worker::{BrokerError, Outgoing, ProcessingGuarantee, QueuedBytes};

/// One try to reach the transaction coordinator; the caller tries again.
const INIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks for a token that was not there.
const TOKEN_PAUSE: Duration = Duration::from_millis(200);
/// One try of an abort, while the reports of purged records wait to be read.
const ABORT_TRY: Duration = Duration::from_millis(100);
/// For the line of a log to come.
const LOG_PAUSE: Duration = Duration::from_millis(10);
/// After its deadline a call that comes back at all has come back.
const OWN_ANSWER: Duration = Duration::from_secs(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes bundles, changelog and dead letters, in transactions unless the guarantee is `at_least_once`.
pub struct Producer {
    /// `None` only while dropped.
    client: Option<Arc<BaseProducer<Deliveries>>>,
    group: String,
    /// For another client in its place.
    settings: Settings,
    slot: usize,
    /// Its `client.id`, which a transactional one also is known by.
    id: String,
    topics: Topics,
    guarantee: ProcessingGuarantee,
    payload: DeadLetterPayload,
    /// What the topics take, as far as it is known.
    limits: RecordLimits,
    /// No single call waits longer: past it the broker has given the transaction up too.
    timeout: Duration,
}

impl Producer {
    /// The producer of worker `slot` of this process, of records within `limits`. Connects in the background.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn new(
        settings: &Settings,
        topics: &Topics,
        slot: usize,
        guarantee: ProcessingGuarantee,
        payload: DeadLetterPayload,
        limits: RecordLimits,
    ) -> Result<Self, BrokerError> {
        let config = settings.producer(slot, guarantee == ProcessingGuarantee::ExactlyOnce, &limits);
        Ok(Self {
            client: Some(Arc::new(made(&config, Deliveries::of(settings))?)),
            group: settings.group_id.clone(),
            id: config.get("client.id").unwrap_or_default().to_owned(),
            settings: settings.clone(),
            slot,
            topics: topics.clone(),
            guarantee,
            payload,
            limits,
            timeout: settings.transaction_timeout(),
        })
    }

    /// The bytes sent and not yet delivered.
    #[must_use]
    pub fn queued(&self) -> QueuedBytes {
        self.client().context().queued.clone()
    }

    fn client(&self) -> &BaseProducer<Deliveries> {
        self.client.as_ref().expect("the client is there until the drop")
    }

    fn shared(&self) -> Arc<BaseProducer<Deliveries>> {
        Arc::clone(self.client.as_ref().expect("the client is there until the drop"))
    }

    fn is_transactional(&self) -> bool {
        self.guarantee == ProcessingGuarantee::ExactlyOnce
    }

    /// Queues a record of whatever topic.
    pub(super) fn queue(&self, record: BaseRecord<'_, [u8], [u8]>) -> Result<(), BrokerError> {
        let topic = record.topic;
        let queued = transaction::enqueue(self.client(), record, Deadline::after(self.timeout));
        queued.map_err(|error| refused(self.client(), topic, &error))
    }

    /// Puts another client in the place of this one: with other limits, or because librdkafka has given it up: where the
    /// broker refuses every topic of a transaction it never begins there, and librdkafka takes the answer to its abort for
    /// fatal.
    fn renew(&mut self, deadline: Deadline) -> Result<(), BrokerError> {
        let context = Arc::clone(self.client().context());
        if let Some(client) = self.client.take() {
            drop_within(client, CLOSE_TIMEOUT, "producer");
        }
        let deliveries = context.renewed();
        let config = self.settings.producer(self.slot, self.is_transactional(), &self.limits);
        self.client = Some(Arc::new(made(&config, deliveries)?));
        loop {
            match crate::worker::Producer::init_transactions(self) {
                Err(BrokerError::Retriable(_)) if !deadline.passed() => {}
                Err(BrokerError::Retriable(text)) => return Err(BrokerError::Fatal(text)),
                result => return result,
            }
        }
    }

    fn send_dead_letter(&self, letter: &DeadLetter) -> Result<(), BrokerError> {
        let fitted = records::fitted(letter, &self.topics.events, self.payload, self.limits.dead_letters);
        if fitted.is_cut {
            let message = "dead letter is too large for its topic and is cut";
            if let Some(repeated) = limiter::admit(message) {
                let (partition, offset) = (letter.partition, letter.offset);
                warn!(%partition, %offset, bytes = letter.bytes(), repeated, "{message}");
            }
        }
        self.queue(BaseRecord {
            topic: &self.topics.dead_letters,
            partition: None,
            payload: fitted.payload,
            key: fitted.key,
            // Not the record's own: it may be one that this topic refuses, which would fail every commit for ever, or one
            // that its retention has passed already. It stands in a header.
            timestamp: None,
            headers: Some(fitted.headers),
            delivery_opaque: (),
        })
    }

    /// Ends an abort. Where a record was refused for its size, the next ones are smaller, and so are the batches.
    fn aborted(&mut self, deadline: Deadline) -> Result<(), BrokerError> {
        let batch = self.limits.batch();
        self.learn_limit();
        if self.limits.batch() < batch { self.renew(deadline) } else { Ok(()) }
    }

    fn learn_limit(&mut self) {
        if let Some((Code::MessageSizeTooLarge, topic)) = self.client().context().take_failure() {
            self.limits.lower(&topic, &self.topics);
        }
    }
}

impl crate::worker::Producer for Producer {
    type GroupMetadata = GroupMetadata;

    fn init_transactions(&mut self) -> Result<(), BrokerError> {
        if !self.is_transactional() {
            return Ok(());
        }
        let (client, login) = (self.client(), &self.client().context().login);
        login.await_answer(|timeout| client.poll(timeout));
        if login.failure().is_some() {
            client.poll(TOKEN_PAUSE);
        }
        if let Some(why) = login.failure() {
            return Err(BrokerError::Retriable(why));
        }
        let result = client.init_transactions(INIT_TIMEOUT);
        self.client().poll(Duration::ZERO);
        result.map_err(|error| errors::transaction(&format!("init transactions of {}", self.id), &error))
    }

    fn serve(&mut self) {
        self.client().poll(Duration::ZERO);
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.client().context().take_failure();
        if !self.is_transactional() {
            return Ok(());
        }
        self.client().begin_transaction().map_err(|error| errors::transaction("begin transaction", &error))
    }

    fn send(&mut self, record: Outgoing<'_>) -> Result<(), BrokerError> {
        transaction::verdict(self.client())?;
        match record {
            Outgoing::Bundle(bundle) => {
                let key = bundle.session_id.as_str().as_bytes();
                let mut records = bundle.records(record_limits::room(self.limits.bundles, key.len()));
                records.try_for_each(|record| {
                    self.queue(BaseRecord::to(&self.topics.bundles).key(key).payload(&record[..]))
                })
            }
            Outgoing::Changelog(partition, entry) => self.queue(BaseRecord {
                payload: entry.value.as_deref(),
                ..BaseRecord::to(&self.topics.changelog).partition(partition.0).key(entry.key.as_slice())
            }),
            Outgoing::DeadLetter(letter) => self.send_dead_letter(letter),
        }
    }

    fn send_offsets(&mut self, offsets: &[(Partition, Offset)], group: &GroupMetadata) -> Result<(), BrokerError> {
        if !self.is_transactional() || offsets.is_empty() {
            return Ok(());
        }
        let list = offsets::to_commit(&self.topics.events, offsets);
        let deadline = Deadline::after(self.timeout);
        let call = format!("send offsets of group {}", self.group);
        let (client, group) = (self.shared(), Arc::clone(&group.0));
        // librdkafka waits without end for the connection to a group coordinator that died after it was asked for. Nothing
        // else can be called meanwhile, so the worker is to end.
        let sent = call_within(self.timeout + OWN_ANSWER, move || {
            loop {
                let result = client.send_offsets_to_transaction(&list, &group, deadline.remaining());
                match result.map_err(|error| explained(&client, &call, &error)) {
                    Err(BrokerError::Retriable(text)) if deadline.passed() => return Err(BrokerError::Abortable(text)),
                    Err(BrokerError::Retriable(_)) => client.poll(Duration::from_millis(10)),
                    result => return result,
                }
            }
        });
        match sent {
            Ok(Some(result)) => result,
            Ok(None) => {
                let waited = self.timeout.as_millis();
                Err(BrokerError::Fatal(format!(
                    "send offsets: the group coordinator did not answer within {waited} ms"
                )))
            }
            Err(error) => Err(BrokerError::Abortable(format!("send offsets: no thread: {error}"))),
        }
    }

    fn commit(&mut self) -> Result<(), BrokerError> {
        let deadline = Deadline::after(self.timeout);
        if !transaction::delivered(self.client(), deadline) {
            transaction::verdict(self.client())?;
            let waited = self.timeout.as_millis();
            return Err(BrokerError::Abortable(format!("records were not delivered within {waited} ms")));
        }
        transaction::verdict(self.client())?;
        if !self.is_transactional() {
            return Ok(());
        }
        // With its own time: what the deliveries took must not leave the commit in doubt.
        let deadline = Deadline::after(self.timeout);
        loop {
            let result = self.client().commit_transaction(deadline.remaining());
            match result
                .map_err(|error| explained(self.client(), &format!("commit transaction of {}", self.id), &error))
            {
                // It may have been committed, and can't be aborted any more.
                Err(BrokerError::Retriable(text)) if deadline.passed() => {
                    return Err(BrokerError::Fatal(format!("the outcome is unknown: {text}")));
                }
                Err(BrokerError::Retriable(_)) => self.client().poll(Duration::from_millis(10)),
                result => return result,
            }
        }
    }

    fn abort(&mut self) -> Result<(), BrokerError> {
        let deadline = Deadline::after(self.timeout);
        if !self.is_transactional() {
            self.client().purge(PurgeConfig::default().queue());
            transaction::settle(self.client(), deadline);
            return self.aborted(deadline);
        }
        // The first call purges the queue in a way that keeps the sequence of records whole, which a purge from here
        // would not; it can't finish before the reports of that are read, so it is called again after. Soon, for records that
        // were on their way come back to the queue, and only the next call purges them.
        loop {
            let result = self.client().abort_transaction(ABORT_TRY.min(deadline.remaining()));
            if result.as_ref().is_err_and(errors::has_nothing_open) {
                self.learn_limit();
                return self.renew(deadline);
            }
            if result.as_ref().is_err_and(errors::is_in_between) && !deadline.passed() {
                self.client().poll(LOG_PAUSE);
                continue;
            }
            match result.map_err(|error| errors::transaction("abort transaction", &error)) {
                Err(BrokerError::Retriable(text) | BrokerError::Abortable(text) | BrokerError::Denied(text)) => {
                    if deadline.passed() {
                        return Err(BrokerError::Fatal(text));
                    }
                    transaction::settle(self.client(), Deadline::after(ABORT_TRY.min(deadline.remaining())));
                }
                Ok(()) => return self.aborted(deadline),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop_within(client, CLOSE_TIMEOUT, "producer");
        }
    }
}

fn made(config: &ClientConfig, deliveries: Deliveries) -> Result<BaseProducer<Deliveries>, BrokerError> {
    BaseProducer::from_config_and_context(config, deliveries).map_err(|error| errors::creation("producer", &error))
}

/// An error of a transaction call. Which topic was refused is in librdkafka's log only.
fn explained(client: &BaseProducer<Deliveries>, call: &str, error: &KafkaError) -> BrokerError {
    match errors::transaction(call, error) {
        BrokerError::Denied(text) => {
            client.poll(LOG_PAUSE);
            let refused = client.context().take_refused();
            BrokerError::Denied(refused.map_or(text.clone(), |topic| format!("{text}, and lacks it on {topic}")))
        }
        // Mostly because of a delivery that failed, which says more.
        BrokerError::Abortable(text) => {
            client.poll(LOG_PAUSE);
            transaction::verdict(client).err().unwrap_or(BrokerError::Abortable(text))
        }
        other => other,
    }
}

/// A record that librdkafka did not take.
fn refused(client: &BaseProducer<Deliveries>, topic: &str, error: &KafkaError) -> BrokerError {
    // Mostly because of a delivery that failed, whose report may be on its way.
    client.poll(LOG_PAUSE);
    if let Err(verdict) = transaction::verdict(client) {
        return verdict;
    }
    match error.rdkafka_error_code() {
        Some(code @ Code::MessageSizeTooLarge) => {
            client.context().note_failure(code, topic);
            transaction::delivery(code, topic)
        }
        Some(code) => transaction::delivery(code, topic),
        None => errors::other("send", error),
    }
}
