//! Whose event a record is, and when it was received (contract.md section 1).

use std::borrow::Cow;

use super::record::Record;
use crate::collector::{Labels, ReceiveClock};
use crate::ids::MAX_SESSION_ID_BYTES;
use crate::wire::{DeadLetterReason, Error, Event, Text};

/// The session's id: the record key, else top-level `session_id`, else `session.id`.
pub fn session_id<'a>(record: &Record<'a>, event: &Event<'a>) -> Result<Cow<'a, str>, Error> {
    let id = match record.key {
        Some(key) => Cow::Borrowed(str::from_utf8(key).map_err(|e| Error {
            reason: DeadLetterReason::InvalidUtf8,
            detail: format!("byte {} of the key is no UTF-8", e.valid_up_to()),
        })?),
        None => {
            let in_body = |id: Option<Text<'a>>| id.filter(|id| !id.is_empty());
            in_body(event.session_id).or(in_body(event.session_object_id)).map(Text::decode).ok_or_else(|| Error {
                reason: DeadLetterReason::MissingSessionId,
                detail: "no key, no session_id, no session.id".into(),
            })?
        }
    };
    if id.len() > MAX_SESSION_ID_BYTES {
        let detail = format!("{} bytes, over {MAX_SESSION_ID_BYTES}", id.len());
        return Err(Error { reason: DeadLetterReason::SessionIdTooLong, detail });
    }
    Ok(id)
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
