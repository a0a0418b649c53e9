//! Whose event a record is, and when it was received (contract.md section 1).

use std::borrow::Cow;

use super::record::Record;
use crate::collector::{Labels, ReceiveClock};
use crate::ids::MAX_SESSION_ID_BYTES;
use crate::wire::{DeadLetterReason, Error, Event, EventClass, Text};

/// The session's id: the record key, else the body's; an empty one is as if it were not there.
pub fn session_id<'a>(record: &Record<'a>, event: &Event<'a>) -> Result<Cow<'a, str>, Error> {
    let id = match record.key.filter(|key| !key.is_empty()) {
        Some(key) => Cow::Borrowed(str::from_utf8(key).map_err(|e| Error {
            reason: DeadLetterReason::InvalidUtf8,
            detail: format!("byte {} of the key is no UTF-8", e.valid_up_to()),
        })?),
        None => event.session_id.map(Text::decode).ok_or_else(|| missing(event))?,
    };
    if id.len() > MAX_SESSION_ID_BYTES {
        let detail = format!("{} bytes, over {MAX_SESSION_ID_BYTES}", id.len());
        return Err(Error { reason: DeadLetterReason::SessionIdTooLong, detail });
    }
    Ok(id)
}

fn missing(event: &Event<'_>) -> Error {
    let mut detail = "no key, no session_id, no session.id".to_owned();
    if let EventClass::Unsupported(shape) = event.kind.class() {
        detail += &format!("; its shape is {}, which is not read", shape.as_str());
    }
    Error { reason: DeadLetterReason::MissingSessionId, detail }
}

/// The receive time in seconds, and its clock: header, else body, else the record's own timestamp.
pub fn receive_time(record: &Record<'_>, event: &Event<'_>) -> Result<(f64, ReceiveClock), Error> {
    let bad = |detail: &str| Error { reason: DeadLetterReason::BadReceiveTime, detail: detail.into() };
    let (at, clock, place) = if let Some(header) = record.header(RECEIVED_AT_HEADER) {
        let at = str::from_utf8(header).ok().and_then(|text| text.trim().parse().ok());
        let at = at.ok_or_else(|| bad("header received_at_s is no decimal number of seconds"))?;
        (at, ReceiveClock::ClientMonotonic, "header received_at_s")
    } else if let Some(at) = event.received_at_s {
        (at, ReceiveClock::ClientMonotonic, "_client_received_at_s")
    } else {
        let at = record.timestamp.ok_or_else(|| bad("no received_at_s, no _client_received_at_s, no timestamp"))?;
        (at.as_secs_f64(), ReceiveClock::KafkaTimestamp, "timestamp")
    };
    if at.is_finite() { Ok((at, clock)) } else { Err(bad(&format!("{place} is not finite"))) }
}

const RECEIVED_AT_HEADER: &str = "received_at_s";

/// What the headers say of the session.
pub fn labels<'a>(record: &Record<'a>) -> Labels<'a> {
    Labels {
        run_id: record.header_str("run_id"),
        model: record.header_str("model"),
        split: record.header_str("split"),
        sample_id: record.header_str("sample_id"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Offset, Partition};
    use crate::task::Header;
    use crate::time::Timestamp;
    use crate::wire::Decoder;

    type Headers<'a> = &'a [(&'a str, Option<&'a str>)];

    fn record<'a>(key: Option<&'a str>, headers: Headers<'a>) -> Record<'a> {
        let header = |(name, value): &(&'a str, Option<&'a str>)| Header { name, value: value.map(str::as_bytes) };
        Record {
            partition: Partition(0),
            offset: Offset(0),
            timestamp: Some(Timestamp(7_000)),
            key: key.map(str::as_bytes),
            value: None,
            headers: headers.iter().map(header).collect(),
        }
    }

    #[test]
    fn an_empty_id_is_as_if_it_were_not_there() {
        let missing = Err(DeadLetterReason::MissingSessionId);
        for (key, value, expected) in [
            (Some("k"), r#"{"session_id":"a","session":{"id":"b"}}"#, Ok("k")),
            (Some(""), r#"{"session_id":"a","session":{"id":"b"}}"#, Ok("a")),
            (None, r#"{"session_id":"","session":{"id":"b"}}"#, Ok("b")),
            (Some(""), r#"{"session_id":5,"session":{"id":"b"}}"#, Ok("b")),
            (Some(""), r#"{"session_id":"","session":{"id":""}}"#, missing),
            (Some(""), r#"{"session_id":"a","session_id":""}"#, missing),
            (None, "{}", missing),
        ] {
            let mut decoder = Decoder::new(1000);
            let event = decoder.decode(value.as_bytes()).expect("an event");
            let found = session_id(&record(key, &[]), &event).map_err(|e| e.reason);
            assert_eq!(found.as_deref(), expected.as_deref(), "{key:?} {value}");
        }
    }

    #[test]
    fn a_missing_id_tells_of_an_envelope_around_the_event() {
        let mut decoder = Decoder::new(1000);
        let event = decoder.decode(br#"{"event":{"type":"error","session_id":"a"}}"#).expect("an event");
        let e = session_id(&record(None, &[]), &event).expect_err("the id is not the event's own");
        let expected =
            "no key, no session_id, no session.id; its shape is an envelope around the event, which is not read";
        assert_eq!(e.detail, expected);
    }

    #[test]
    fn the_first_header_of_a_name_that_says_something_counts() {
        for name in ["run_id", "model", "split", "sample_id"] {
            for (headers, expected) in [
                (&[(name, Some("a")), (name, Some("b"))][..], Some("a")),
                (&[(name, Some("")), (name, None), ("other", Some("c")), (name, Some("b"))], Some("b")),
                (&[(name, Some(""))], None),
                (&[(name, None)], None),
            ] {
                let Labels { run_id, model, split, sample_id } = labels(&record(None, headers));
                let found: Vec<_> = [run_id, model, split, sample_id].into_iter().flatten().collect();
                assert_eq!(found, Vec::from_iter(expected), "{headers:?}");
            }
        }
    }

    #[test]
    fn an_empty_receive_time_gives_way_to_the_next_place() {
        let at = |headers, value: &str| {
            let mut decoder = Decoder::new(1000);
            receive_time(&record(None, headers), &decoder.decode(value.as_bytes()).expect("an event"))
        };
        let (client, kafka) = (ReceiveClock::ClientMonotonic, ReceiveClock::KafkaTimestamp);
        let empty: Headers<'_> = &[(RECEIVED_AT_HEADER, Some(""))];
        assert_eq!(at(empty, r#"{"_client_received_at_s":2}"#), Ok((2.0, client)));
        assert_eq!(at(empty, "{}"), Ok((7.0, kafka)));
        assert_eq!(at(&[(RECEIVED_AT_HEADER, Some("")), (RECEIVED_AT_HEADER, Some("3"))], "{}"), Ok((3.0, client)));
        let refused = at(&[(RECEIVED_AT_HEADER, Some("-"))], "{}").map_err(|e| e.reason);
        assert_eq!(refused, Err(DeadLetterReason::BadReceiveTime));
    }
}
