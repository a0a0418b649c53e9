//! Records between librdkafka's form and the service's own.

use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Header as NativeHeader, Headers, OwnedHeaders};
use tracing::warn;

use super::record_limits::{header_bytes, room};
use super::settings::DeadLetterPayload;
use crate::ids::{Offset, Partition};
use crate::task::{DeadLetter, Header, Record};
use crate::time::Timestamp;
use crate::{limiter, panics};

/// The headers that a dead letter has besides its own; Kafka Connect's names where it has any.
pub(super) const TOPIC: &str = "__connect.errors.topic";
pub(super) const PARTITION: &str = "__connect.errors.partition";
pub(super) const OFFSET: &str = "__connect.errors.offset";
pub(super) const DETAIL: &str = "__connect.errors.exception.message";
pub(super) const REASON: &str = "duplex.dead_letter.reason";
pub(super) const TIMESTAMP: &str = "duplex.dead_letter.timestamp_ms";
pub(super) const PAYLOAD_BYTES: &str = "duplex.dead_letter.payload_bytes";
/// How many headers the record had, where none of them was kept.
pub(super) const HEADERS: &str = "duplex.dead_letter.headers";
/// How long the key was, where only its beginning was kept.
pub(super) const KEY_BYTES: &str = "duplex.dead_letter.key_bytes";
pub(super) const ADDED: [&str; 9] =
    [TOPIC, PARTITION, OFFSET, DETAIL, REASON, TIMESTAMP, PAYLOAD_BYTES, HEADERS, KEY_BYTES];

/// Bytes that are kept of a key that is too large: four times what a session id may have.
const KEPT_OF_KEY: usize = 1024;

/// Of a record with so many names that are not UTF-8 no further headers are read.
const MAX_UNREADABLE_NAMES: usize = 4;

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
/// out, and so is what comes after a few of them, for each of them costs.
fn headers<H: Headers>(headers: &H) -> Vec<Header<'_>> {
    let (mut read, mut unreadable) = (Vec::new(), 0);
    for index in 0..headers.count() {
        match panics::caught(|| headers.try_get(index)) {
            Some(Some(header)) => read.push(Header { name: header.key, value: header.value }),
            Some(None) => {}
            None => unreadable += 1,
        }
        if unreadable == MAX_UNREADABLE_NAMES {
            break;
        }
    }
    let message = "headers whose names are not UTF-8 are left out";
    if unreadable > 0
        && let Some(repeated) = limiter::admit(message)
    {
        warn!(repeated, "{message}");
    }
    read
}

/// A dead letter as its topic takes it.
pub(super) struct Fitted<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) payload: Option<&'a [u8]>,
    pub(super) headers: OwnedHeaders,
    /// Something was left out for want of room.
    pub(super) is_cut: bool,
}

/// A dead letter within `limit` bytes: it has its payload, its own headers and its whole key as long as they fit, in this
/// order of what is left out first. Its headers say what was.
pub(super) fn fitted<'a>(letter: &'a DeadLetter, topic: &str, payload: DeadLetterPayload, limit: usize) -> Fitted<'a> {
    let partition = letter.partition.to_string();
    let offset = letter.offset.to_string();
    let timestamp = letter.timestamp.map(|timestamp| timestamp.0.to_string());
    let payload_bytes = letter.payload.len().to_string();
    let headers = letter.headers.len().to_string();
    let key_bytes = letter.key.as_ref().map_or(0, Vec::len).to_string();
    let mut added = vec![
        (TOPIC, topic),
        (PARTITION, &partition),
        (OFFSET, &offset),
        (DETAIL, &letter.detail),
        (REASON, letter.reason.as_str()),
    ];
    added.extend(timestamp.as_ref().map(|timestamp| (TIMESTAMP, timestamp.as_str())));
    let left_out = [(PAYLOAD_BYTES, &payload_bytes), (HEADERS, &headers), (KEY_BYTES, &key_bytes)];
    let header = |(name, value): &(&str, &str)| header_bytes(name, Some(value.as_bytes()));
    let of_all: usize = added.iter().map(header).sum();
    let of_left_out: usize = left_out.iter().map(|(name, value)| header(&(name, value))).sum();
    let room = room(limit, of_all + of_left_out);

    let mut key = letter.key.as_deref();
    let key_len = key.map_or(0, <[u8]>::len);
    let own_bytes: usize = letter.headers.iter().map(|(name, value)| header_bytes(name, value.as_deref())).sum();
    let payload_fits = key_len + own_bytes + letter.payload.len() <= room;
    let headers_fit = letter.headers.is_empty() || key_len + own_bytes <= room;
    if payload == DeadLetterPayload::Drop || !payload_fits {
        added.push((PAYLOAD_BYTES, &payload_bytes));
    }
    if !headers_fit {
        added.push((HEADERS, &headers));
    }
    if let Some(whole) = key.filter(|_| key_len > room) {
        key = Some(beginning(whole, KEPT_OF_KEY.min(room)));
        added.push((KEY_BYTES, &key_bytes));
    }
    let own = letter.headers.iter().filter(|_| headers_fit).map(|(name, value)| (name.as_str(), value.as_deref()));
    Fitted {
        key,
        payload: (payload == DeadLetterPayload::Keep && payload_fits).then_some(letter.payload.as_slice()),
        headers: owned_headers(own.chain(added.into_iter().map(|(name, value)| (name, Some(value.as_bytes()))))),
        is_cut: !payload_fits && payload == DeadLetterPayload::Keep || !headers_fit || key_len > room,
    }
}

/// The first bytes of a key, up to a character's end where it is text.
fn beginning(key: &[u8], bytes: usize) -> &[u8] {
    let key = &key[..bytes.min(key.len())];
    match str::from_utf8(key) {
        Err(error) if error.error_len().is_none() => &key[..error.valid_up_to()],
        _ => key,
    }
}

pub(super) fn owned_headers<'a>(headers: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>) -> OwnedHeaders {
    headers.into_iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(NativeHeader { key, value }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::wire::DeadLetterReason;

    fn letter(key: usize, header: usize, payload: usize) -> DeadLetter {
        DeadLetter {
            reason: DeadLetterReason::InvalidJson,
            detail: "no".into(),
            partition: Partition(3),
            offset: Offset(7),
            timestamp: Some(Timestamp(1)),
            key: Some("\u{e9}".repeat(key / 2).into_bytes()),
            payload: vec![0xff; payload],
            headers: vec![("own".into(), Some(vec![0; header]))],
        }
    }

    #[test]
    fn a_dead_letter_is_within_the_limit_whatever_the_record_was_and_says_what_it_lacks() {
        let sizes = [0, 2, 700, 16_000, 17_000, 1_048_400];
        for limit in [16 << 10, 65_536, 1_048_588] {
            for (key, header, payload) in sizes.into_iter().flat_map(|key| {
                sizes.into_iter().flat_map(move |header| sizes.into_iter().map(move |payload| (key, header, payload)))
            }) {
                for keep in [DeadLetterPayload::Keep, DeadLetterPayload::Drop] {
                    let letter = letter(key, header, payload);
                    let fitted = fitted(&letter, &"t".repeat(249), keep, limit);
                    let headers: Vec<_> = fitted.headers.iter().collect();
                    let of_headers: usize = headers.iter().map(|h| header_bytes(h.key, h.value)).sum();
                    let kept = fitted.key.expect("a key");
                    let bytes = of_headers + kept.len() + fitted.payload.map_or(0, <[u8]>::len);
                    assert!(bytes <= room(limit, 0), "{bytes} of {limit}: {key}, {header}, {payload}");
                    let says = |name| headers.iter().any(|header| header.key == name);
                    assert_eq!(says(PAYLOAD_BYTES), fitted.payload.is_none());
                    assert_eq!(says(HEADERS), !says("own"));
                    assert_eq!(says(KEY_BYTES), kept.len() < key);
                    assert!(str::from_utf8(kept).is_ok() && (key == 0 || !kept.is_empty()));
                    // The key goes last, the payload first.
                    assert!(!says(KEY_BYTES) || says(HEADERS));
                    assert!(!says(HEADERS) || says(PAYLOAD_BYTES));
                    let whole = key + header + payload + 1024 <= limit;
                    assert!(!whole || fitted.key == letter.key.as_deref() && !fitted.is_cut);
                }
            }
        }
    }

    /// Headers as rdkafka reads them; those without a name here have one that is not UTF-8.
    struct Foreign(&'static [&'static str], Cell<usize>);

    impl Headers for Foreign {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn try_get(&self, index: usize) -> Option<NativeHeader<'_, &[u8]>> {
            self.1.set(self.1.get() + 1);
            let key = self.0[index];
            assert!(!key.is_empty(), "called `Result::unwrap()` on an `Err` value");
            Some(NativeHeader { key, value: None })
        }
    }

    #[test]
    fn a_header_whose_name_is_not_utf8_is_left_out_and_many_of_them_cost_no_more_than_a_few() {
        let names = |foreign: &Foreign| headers(foreign).into_iter().map(|h| h.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&Foreign(&["first", "", "third"], Cell::default())), ["first", "third"]);
        let many = Foreign(&["first", "", "", "third", "", "", "never", ""], Cell::default());
        assert_eq!(names(&many), ["first", "third"]);
        assert_eq!(many.1.get(), 6);
    }
}
