//! A plain idempotent producer, for the load generator and the demo.

use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::producer::{BaseProducer, BaseRecord};

use super::client::{Deadline, drop_within};
use super::record_limits::RecordLimits;
use super::settings::Settings;
use super::transaction::{self, Deliveries};
use super::{errors, records};
use crate::time::Timestamp;
use crate::worker::BrokerError;

/// How long a full queue is waited for.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes records in order, each once, outside any transaction.
pub struct Writer {
    /// `None` only while dropped.
    client: Option<BaseProducer<Deliveries>>,
}

impl Writer {
    /// Connects in the background.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn new(settings: &Settings) -> Result<Self, BrokerError> {
        let config = settings.producer(0, false, &RecordLimits::unasked(settings));
        let client = BaseProducer::from_config_and_context(&config, Deliveries::of(settings))
            .map_err(|error| errors::creation("writer", &error))?;
        Ok(Self { client: Some(client) })
    }

    /// Queues a record, waiting while the queue is full. The partition is that of the key.
    ///
    /// # Errors
    /// `Abortable` when this record can't be queued or an earlier one was not delivered, `Fatal` when none ever will.
    pub fn send(
        &mut self,
        topic: &str,
        key: Option<&[u8]>,
        value: &[u8],
        timestamp: Option<Timestamp>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), BrokerError> {
        transaction::verdict(self.client())?;
        let record = BaseRecord {
            topic,
            partition: None,
            payload: Some(value),
            key,
            timestamp: timestamp.map(|timestamp| timestamp.0),
            headers: (!headers.is_empty()).then(|| records::owned_headers(headers.iter().copied())),
            delivery_opaque: (),
        };
        transaction::enqueue(self.client(), record, Deadline::after(QUEUE_TIMEOUT)).map_err(|error| {
            match error.rdkafka_error_code() {
                Some(code) => transaction::delivery(code, topic),
                None => errors::other("send", &error),
            }
        })
    }

    /// Waits up to `timeout` until all queued records are on the broker.
    ///
    /// # Errors
    /// `Retriable` while some are still on their way, `Abortable` or `Fatal` when one was not delivered.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), BrokerError> {
        let settled = transaction::settle(self.client(), timeout, Deadline::after(timeout));
        transaction::verdict(self.client())?;
        settled.map_err(|_| BrokerError::Retriable("records are still on their way".into()))
    }

    fn client(&self) -> &BaseProducer<Deliveries> {
        self.client.as_ref().expect("the client is there until the drop")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop_within(client, CLOSE_TIMEOUT, "writer");
        }
    }
}
