//! Deliveries of a producer: what came back, and how to wait for the rest.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientContext, Message};

use super::client::Deadline;
use super::login::Login;
use super::settings::Settings;
use super::{context, errors};
use crate::worker::{BrokerError, QueuedBytes};

/// One short look at the producer's queue. librdkafka's own waits are of 100 ms, which would be every commit's floor.
const LOOK: Duration = Duration::from_millis(1);

/// Keeps a delivery that failed, and counts what waits for its delivery.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    pub(super) login: Login,
    /// The code and the topic.
    failed: Mutex<Option<(Code, String)>>,
    /// The last topic that a transaction may not write to.
    refused: Mutex<Option<String>>,
    /// Bytes of keys and values.
    pub(super) queued: QueuedBytes,
}

impl Deliveries {
    pub(super) fn of(settings: &Settings) -> Self {
        Self { login: Login::of(settings), ..Self::default() }
    }

    /// For a client in the place of this one's, whose queue went with it.
    pub(super) fn renewed(&self) -> Self {
        self.queued.set(0);
        Self { login: self.login.clone(), queued: self.queued.clone(), ..Self::default() }
    }

    /// The failure that was noted since the last call.
    pub(super) fn take_failure(&self) -> Option<(Code, String)> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes a record that could not be queued or delivered: the first, unless a later one was too large.
    pub(super) fn note_failure(&self, code: Code, topic: &str) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        // By a refusal for size there is something to learn.
        if failed.is_none() || code == Code::MessageSizeTooLarge {
            *failed = Some((code, topic.to_owned()));
        }
    }

    /// The topic that was refused since it was last taken; its name comes by polling.
    pub(super) fn take_refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn failure(&self) -> Option<(Code, String)> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.login.token()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if message.ends_with("to transaction: Broker: Topic authorization failed") {
            let topic = message.split('"').nth(1).map(str::to_owned);
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = topic;
        }
        context::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        context::log_error(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let message = match result {
            Ok(message) | Err((_, message)) => message,
        };
        self.queued.remove(message.key_len() + message.payload_len());
        let Err((error, _)) = result else { return };
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        // Purged by an abort: as intended.
        if matches!(code, Code::PurgeQueue | Code::PurgeInflight) {
            return;
        }
        self.note_failure(code, message.topic());
    }
}

/// Queues a record, waiting while the queue is full.
///
/// # Errors
/// The error of librdkafka; that of a full queue once the deadline has passed, or a delivery has failed: what is behind it
/// in a transaction waits for the abort.
pub(super) fn enqueue(
    producer: &BaseProducer<Deliveries>,
    mut record: BaseRecord<'_, [u8], [u8]>,
    deadline: Deadline,
) -> Result<(), KafkaError> {
    let bytes = record.key.map_or(0, <[u8]>::len) + record.payload.map_or(0, <[u8]>::len);
    loop {
        match producer.send(record) {
            Ok(()) => {
                // Its delivery is reported by a poll, so after this.
                producer.context().queued.add(bytes);
                producer.poll(Duration::ZERO);
                return Ok(());
            }
            Err((KafkaError::MessageProduction(Code::QueueFull), back))
                if !deadline.passed() && producer.context().failure().is_none() =>
            {
                producer.poll(LOOK);
                record = back;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// Waits until every queued record is delivered, or one has failed: what is behind it in a transaction waits for the abort.
///
/// # Errors
/// As [`settle`]'s; the failure of a delivery is told by [`verdict`].
pub(super) fn delivered(
    producer: &BaseProducer<Deliveries>,
    silence: Duration,
    deadline: Deadline,
) -> Result<(), BrokerError> {
    wait(producer, silence, deadline, || producer.context().failure().is_some())
}

/// Waits until every queued record is delivered or has failed.
///
/// # Errors
/// `Retriable` when none of them was for `silence`, or some are left at the deadline.
pub(super) fn settle(
    producer: &BaseProducer<Deliveries>,
    silence: Duration,
    deadline: Deadline,
) -> Result<(), BrokerError> {
    wait(producer, silence, deadline, || false)
}

fn wait(
    producer: &BaseProducer<Deliveries>,
    silence: Duration,
    deadline: Deadline,
    is_over: impl Fn() -> bool,
) -> Result<(), BrokerError> {
    let mut left = producer.in_flight_count();
    let mut moves_by = Deadline::after(silence);
    while left > 0 && !is_over() {
        if moves_by.passed() {
            let silent = silence.as_millis();
            return Err(BrokerError::Retriable(format!("no record was delivered for {silent} ms, {left} are left")));
        }
        if deadline.passed() {
            return Err(BrokerError::Retriable(format!("{left} records were not delivered in time")));
        }
        producer.poll(LOOK);
        let now = producer.in_flight_count();
        if now != left {
            (left, moves_by) = (now, Deadline::after(silence));
        }
    }
    Ok(())
}

/// What a failure so far means for the caller.
///
/// # Errors
/// `Fenced` or `Fatal` for the end of the client, else `Abortable` for a delivery that failed.
pub(super) fn verdict(producer: &BaseProducer<Deliveries>) -> Result<(), BrokerError> {
    if let Some((code, text)) = producer.client().fatal_error() {
        let text = errors::with_remedy(format!("{text} ({code:?})"), code);
        return Err(match code {
            _ if errors::is_fencing(code) => BrokerError::Fenced(text),
            Code::TransactionalIdAuthorizationFailed => BrokerError::Misconfigured(text),
            _ if errors::is_of_this_client(code) => BrokerError::Undecided(text),
            _ => BrokerError::Fatal(text),
        });
    }
    match producer.context().failure() {
        None => Ok(()),
        Some((code, topic)) => Err(delivery(code, &topic)),
    }
}

/// A record that could not be queued or delivered.
pub(super) fn delivery(code: Code, topic: &str) -> BrokerError {
    let text = format!("topic {topic}: {code}");
    match code {
        Code::MessageSizeTooLarge => BrokerError::TooLarge(format!(
            "{text}: raise max.message.bytes of the topic, which was lowered or could not be read at start. Until then bundles \
             are split further and dead letters cut further; a single row or changelog record that is too large blocks all \
             partitions of its worker"
        )),
        Code::TopicAuthorizationFailed => BrokerError::Denied(format!("{text}: the principal needs Write on it")),
        _ => BrokerError::Abortable(text),
    }
}
