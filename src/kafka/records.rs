//! Records between librdkafka's form and the service's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Header as NativeHeader, Headers, OwnedHeaders};

use super::settings::DeadLetterPayload;
use crate::ids::{Offset, Partition};
use crate::task::{DeadLetter, Header, Record};
use crate::time::Timestamp;

/// The headers that a dead letter has besides its own; Kafka Connect's names where it has any.
pub(super) const TOPIC: &str = "__connect.errors.topic";
pub(super) const PARTITION: &str = "__connect.errors.partition";
pub(super) const OFFSET: &str = "__connect.errors.offset";
pub(super) const DETAIL: &str = "__connect.errors.exception.message";
pub(super) const REASON: &str = "duplex.dead_letter.reason";
pub(super) const TIMESTAMP: &str = "duplex.dead_letter.timestamp_ms";
pub(super) const PAYLOAD_BYTES: &str = "duplex.dead_letter.payload_bytes";
pub(super) const ADDED: [&str; 7] = [TOPIC, PARTITION, OFFSET, DETAIL, REASON, TIMESTAMP, PAYLOAD_BYTES];

/// A message as a task reads it.
pub(super) fn record<'a>(message: &'a BorrowedMessage<'_>) -> Record<'a> {
    Record {
        partition: Partition(message.partition()),
        offset: Offset(message.offset()),
        timestamp: message.timestamp().to_millis().map(Timestamp),
        key: message.key(),
        value: message.payload(),
        headers: message.headers().map(headers).unwrap_or_default(),
    }
}

/// The headers in order. rdkafka panics at a name that is not UTF-8, which any producer can write: such a header is left
/// out, and the record kept.
fn headers<H: Headers>(headers: &H) -> Vec<Header<'_>> {
    (0..headers.count())
        .filter_map(|index| catch_unwind(AssertUnwindSafe(|| headers.try_get(index))).ok().flatten())
        .map(|header| Header { name: header.key, value: header.value })
        .collect()
}

/// The headers of a dead letter: its own, then Kafka Connect's and the reason.
pub(super) fn dead_letter_headers(letter: &DeadLetter, topic: &str, payload: DeadLetterPayload) -> OwnedHeaders {
    let own = letter.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    let partition = letter.partition.to_string();
    let offset = letter.offset.to_string();
    let timestamp = letter.timestamp.map(|timestamp| timestamp.0.to_string());
    let bytes = letter.payload.len().to_string();
    let mut added = vec![
        (TOPIC, topic),
        (PARTITION, &partition),
        (OFFSET, &offset),
        (DETAIL, &letter.detail),
        (REASON, letter.reason.as_str()),
    ];
    if let Some(timestamp) = &timestamp {
        added.push((TIMESTAMP, timestamp));
    }
    if payload == DeadLetterPayload::Drop {
        added.push((PAYLOAD_BYTES, &bytes));
    }
    owned_headers(own.chain(added.into_iter().map(|(name, value)| (name, Some(value.as_bytes())))))
}

/// What a dead letter takes with its payload, the headers that are added to it generously counted.
pub(super) fn dead_letter_bytes(letter: &DeadLetter) -> usize {
    let header = |(name, value): &(String, Option<Vec<u8>>)| name.len() + value.as_ref().map_or(0, Vec::len) + 16;
    let own: usize = letter.headers.iter().map(header).sum();
    letter.payload.len() + letter.key.as_ref().map_or(0, Vec::len) + own + 1024
}

pub(super) fn owned_headers<'a>(headers: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>) -> OwnedHeaders {
    headers.into_iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(NativeHeader { key, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers whose second name is not UTF-8, as rdkafka reads them.
    struct Foreign;

    impl Headers for Foreign {
        fn count(&self) -> usize {
            3
        }

        fn try_get(&self, index: usize) -> Option<NativeHeader<'_, &[u8]>> {
            let key = ["first", "", "third"][index];
            assert!(!key.is_empty(), "called `Result::unwrap()` on an `Err` value");
            Some(NativeHeader { key, value: None })
        }
    }

    #[test]
    fn a_header_whose_name_is_not_utf8_is_left_out() {
        let names: Vec<_> = headers(&Foreign).into_iter().map(|header| header.name).collect();
        assert_eq!(names, ["first", "third"]);
    }
}
