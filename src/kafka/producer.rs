//! The transactional producer: `worker::Producer` over librdkafka.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, PurgeConfig};
use tracing::warn;

use super::client::{Deadline, REPLACE_TIMEOUT, call_within, drop_within};
use super::consumer::GroupMetadata;
use super::record_limits::RecordLimits;
use super::settings::{DeadLetterPayload, Settings, Topics};
use super::transaction::{self, Deliveries};
use super::{errors, offsets, record_limits, records};
use crate::ids::{Offset, Partition};
use crate::limiter;
use crate::task::DeadLetter;
use crate::worker::{BrokerError, Outgoing, ProcessingGuarantee, QueuedBytes};

/// One try to reach the transaction coordinator; the caller tries again, and has a group to stay in meanwhile.
const INIT_TIMEOUT: Duration = Duration::from_secs(1);
/// A call within a transaction that a broker has not answered for this long is given up, and so are deliveries of which
/// none came for this long: what is away is waited for between transactions.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// The same for an abort, which comes after another wait.
const ABORT_TIMEOUT: Duration = Duration::from_secs(4);
/// Between two looks for a token that was not there.
const TOKEN_PAUSE: Duration = Duration::from_millis(200);
/// One try of an abort, while the reports of purged records wait to be read.
const ABORT_TRY: Duration = Duration::from_millis(100);
/// For the line of a log to come.
const LOG_PAUSE: Duration = Duration::from_millis(10);
/// After its deadline a call that comes back at all has come back.
const OWN_ANSWER: Duration = Duration::from_secs(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes bundles, changelog and dead letters, in transactions unless the guarantee is `at_least_once`.
pub struct Producer {
    /// `None` only while dropped.
    client: Option<Arc<BaseProducer<Deliveries>>>,
    group: String,
    /// For another client in its place.
    settings: Settings,
    slot: usize,
    /// The client has been registered, which it can be once.
    is_registered: bool,
    /// Its `client.id`, which a transactional one also is known by.
    id: String,
    topics: Topics,
    guarantee: ProcessingGuarantee,
    payload: DeadLetterPayload,
    /// What the topics take, as far as it is known.
    limits: RecordLimits,
    /// `transaction.timeout.ms`: past it the broker has given the transaction up too.
    timeout: Duration,
    /// Until when the records of the open transaction have to be delivered, so that time is left to commit it.
    deliver_by: Deadline,
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
            is_registered: false,
            topics: topics.clone(),
            guarantee,
            payload,
            limits,
            timeout: settings.transaction_timeout(),
            deliver_by: Deadline::after(Duration::ZERO),
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
        let deadline = Deadline::after(self.answer_timeout().min(self.deliver_by.remaining()));
        let queued = transaction::enqueue(self.client(), record, deadline);
        queued.map_err(|error| refused(self.client(), topic, &error))
    }

    /// Puts another client in the place of this one, which may hang, not know how its transaction ended, or make batches that
    /// are too large. It is given up to a thread of its own.
    fn renew(&mut self) -> Result<(), BrokerError> {
        self.learn_limit();
        let context = Arc::clone(self.client().context());
        let config = self.settings.producer(self.slot, self.is_transactional(), &self.limits);
        let client = made(&config, context.renewed())?;
        if let Some(client) = self.client.replace(Arc::new(client)) {
            drop_within(client, REPLACE_TIMEOUT, "producer");
        }
        self.is_registered = false;
        Ok(())
    }

    /// Makes a call that may not come back although it has a deadline, and again while it may be answered: librdkafka
    /// waits without end for a connection to a coordinator that died after it was asked for.
    fn ask(
        &self,
        call: String,
        ask: impl Fn(&BaseProducer<Deliveries>, Duration) -> KafkaResult<()> + Send + 'static,
    ) -> Result<(), BrokerError> {
        let timeout = self.answer_timeout();
        let (client, deadline) = (self.shared(), Deadline::after(timeout));
        let name = call.clone();
        let unanswered = || BrokerError::Undecided(format!("{call}: no answer within {} ms", timeout.as_millis()));
        let asked = call_within(timeout + OWN_ANSWER, move || {
            loop {
                match ask(&client, deadline.remaining()).map_err(|error| explained(&client, &name, &error)) {
                    Err(BrokerError::Retriable(text)) if deadline.passed() => {
                        return Err(BrokerError::Undecided(format!("{text}, given up")));
                    }
                    Err(BrokerError::Retriable(_)) => client.poll(Duration::from_millis(10)),
                    result => return result,
                }
            }
        });
        match asked {
            Ok(answer) => answer.unwrap_or_else(|| Err(unanswered())),
            Err(error) => Err(BrokerError::Undecided(format!("{call}: no thread: {error}"))),
        }
    }

    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT.min(self.timeout)
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
    fn aborted(&mut self) -> Result<(), BrokerError> {
        let batch = self.limits.batch();
        self.learn_limit();
        if self.limits.batch() == batch {
            return Ok(());
        }
        self.renew()?;
        if self.is_transactional() {
            return Err(BrokerError::Undecided("the producer is made anew for smaller batches".into()));
        }
        Ok(())
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
        let is_dead = self.client().client().fatal_error().is_some();
        if self.is_registered || is_dead {
            self.renew()?;
        }
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
        result.map_err(|error| errors::transaction(&format!("init transactions of {}", self.id), &error))?;
        self.is_registered = true;
        Ok(())
    }

    fn serve(&mut self) {
        self.client().poll(Duration::ZERO);
    }

    fn begin(&mut self) -> Result<(), BrokerError> {
        self.client().context().take_failure();
        self.deliver_by = Deadline::after(self.timeout / 2);
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
        let group = Arc::clone(&group.0);
        self.ask(format!("send offsets of group {}", self.group), move |client, timeout| {
            client.send_offsets_to_transaction(&list, &group, timeout)
        })
    }

    fn commit(&mut self) -> Result<(), BrokerError> {
        let settled = transaction::delivered(self.client(), self.answer_timeout(), self.deliver_by);
        transaction::verdict(self.client())?;
        settled?;
        if !self.is_transactional() {
            return Ok(());
        }
        // One that is not answered may have come about, and can't be aborted any more.
        self.ask(format!("commit transaction of {}", self.id), |client, timeout| client.commit_transaction(timeout))
    }

    fn abort(&mut self) -> Result<(), BrokerError> {
        let deadline = Deadline::after(ABORT_TIMEOUT);
        if !self.is_transactional() {
            self.client().purge(PurgeConfig::default().queue());
            // What is still on its way is the delivery of a record that is written again.
            drop(transaction::settle(self.client(), ABORT_TIMEOUT, deadline));
            return self.aborted();
        }
        // The first call purges the queue in a way that keeps the sequence of records whole, which a purge from here
        // would not; it can't finish before the reports of that are read, so it is called again after. Soon, for records that
        // were on their way come back to the queue, and only the next call purges them.
        loop {
            let result = self.client().abort_transaction(ABORT_TRY.min(deadline.remaining()));
            if result.as_ref().is_err_and(errors::has_nothing_open) {
                // Where the broker refuses every topic of a transaction it never begins there, and librdkafka takes the
                // answer to its abort for fatal.
                return Err(BrokerError::Undecided("the broker knows of no transaction to abort".into()));
            }
            if result.as_ref().is_err_and(errors::is_in_between) {
                if deadline.passed() {
                    return Err(BrokerError::Undecided("the abort before this one is not answered".into()));
                }
                self.client().poll(LOG_PAUSE);
                continue;
            }
            match result.map_err(|error| errors::transaction("abort transaction", &error)) {
                Err(BrokerError::Retriable(text) | BrokerError::Abortable(text) | BrokerError::Denied(text)) => {
                    if deadline.passed() {
                        return Err(BrokerError::Undecided(text));
                    }
                    let soon = ABORT_TRY.min(deadline.remaining());
                    drop(transaction::settle(self.client(), soon, Deadline::after(soon)));
                }
                Ok(()) => return self.aborted(),
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
