//! Capture files: one record a line, as `kcat -C -J` prints them, or one bare event a line (contract.md section 1).

use std::io::BufRead;

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::format::{self, BYTE_ORDER_MARK, ForeignFormat};
use crate::ids::{Offset, Partition};
use crate::task::{Header, Record};
use crate::time::Timestamp;
use crate::wire::Decoder;

/// A line that is no record.
#[derive(Debug, Error)]
pub enum CaptureError {
    #[error("line {line}: {detail}")]
    Line { line: u64, detail: String },
    #[error("{0}")]
    Foreign(ForeignFormat),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// One record of a capture, owned.
#[derive(Clone, PartialEq, Debug)]
pub struct CapturedRecord {
    pub topic: Option<String>,
    pub partition: Partition,
    pub offset: Offset,
    pub timestamp: Option<Timestamp>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// `kcat -C -J`
#[derive(Deserialize)]
struct KcatLine<'a> {
    topic: Option<String>,
    partition: i32,
    offset: i64,
    ts: Option<i64>,
    #[serde(default)]
    headers: Vec<Option<String>>,
    #[serde(default)]
    key: Option<String>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Reads a capture's lines. Empty lines are passed over, and so is a byte order mark at the beginning.
pub struct Capture<R> {
    lines: R,
    line: u64,
    /// Whether nothing but empty lines was read.
    is_at_beginning: bool,
    /// Offset of the next bare event.
    bare_offset: i64,
    session_id: Option<String>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl<R: BufRead> Capture<R> {
    /// A capture; `session_id` is the key of bare events that carry none.
    pub fn new(lines: R, session_id: Option<String>) -> Self {
        Self { lines, line: 0, is_at_beginning: true, bare_offset: 0, session_id, buffer: Vec::new(), bytes: 0 }
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// When the file can't be read, is of another format, or a line is neither a record nor an event.
    pub fn next_record(&mut self) -> Result<Option<CapturedRecord>, CaptureError> {
        if self.bytes == 0 {
            // Before a line is looked for: of another format it may be as long as the file.
            foreign(format::of_beginning(self.lines.fill_buf()?))?;
        }
        loop {
            self.buffer.clear();
            let read = self.lines.read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            self.bytes += read as u64;
            if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.buffer.trim_ascii().is_empty() {
                if std::mem::replace(&mut self.is_at_beginning, false) {
                    // The beginning may have come in pieces, or behind a byte order mark.
                    foreign(format::of_beginning(&self.buffer).or_else(|| format::of_first_line(&self.buffer)))?;
                }
                return self.parse().map(Some);
            }
        }
    }

    fn parse(&mut self) -> Result<CapturedRecord, CaptureError> {
        let line = self.buffer.trim_ascii();
        match serde_json::from_slice::<KcatLine<'_>>(line) {
            Ok(record) => record.into_record().map_err(|detail| CaptureError::Line { line: self.line, detail }),
            // A line with these three is a record that is damaged; any other may be an event, which the task judges.
            Err(e) if looks_like_a_record(line) => {
                Err(CaptureError::Line { line: self.line, detail: format!("damaged record: {e}") })
            }
            Err(_) => {
                let offset = Offset(self.bare_offset);
                self.bare_offset += 1;
                Ok(CapturedRecord {
                    topic: None,
                    partition: Partition(0),
                    offset,
                    timestamp: None,
                    key: self.session_id.as_ref().filter(|_| !has_session_id(line)).map(|id| id.as_bytes().to_vec()),
                    value: Some(line.to_vec()),
                    headers: Vec::new(),
                })
            }
        }
    }
}

fn foreign(format: Option<ForeignFormat>) -> Result<(), CaptureError> {
    format.map_or(Ok(()), |format| Err(CaptureError::Foreign(format)))
}

/// Whether a bare event says whose it is.
fn has_session_id(event: &[u8]) -> bool {
    Decoder::new(event.len()).decode(event).is_ok_and(|event| event.session_id.is_some())
}

fn looks_like_a_record(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        partition: Option<&'a RawValue>,
        #[serde(borrow)]
        offset: Option<&'a RawValue>,
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
    }
    serde_json::from_slice::<Parts<'_>>(line)
        .is_ok_and(|parts| parts.partition.is_some() && parts.offset.is_some() && parts.payload.is_some())
}

impl KcatLine<'_> {
    fn into_record(self) -> Result<CapturedRecord, String> {
        let value = match serde_json::from_str::<Option<String>>(self.payload.get()) {
            Ok(payload) => payload.map(String::into_bytes),
            Err(e) => return Err(format!("payload is no string: {e}")),
        };
        if !self.headers.len().is_multiple_of(2) {
            return Err("headers are no flat list of names and values".into());
        }
        let headers = self.headers.chunks_exact(2).map(|pair| {
            let name = pair[0].clone().ok_or("a header has no name")?;
            Ok((name, pair[1].clone().map(String::into_bytes)))
        });
        Ok(CapturedRecord {
            topic: self.topic,
            partition: Partition(self.partition),
            offset: Offset(self.offset),
            timestamp: self.ts.filter(|ts| *ts >= 0).map(Timestamp),
            key: self.key.map(String::into_bytes),
            value,
            headers: headers.collect::<Result<_, String>>()?,
        })
    }
}

impl CapturedRecord {
    /// The record as a task takes it.
    #[must_use]
    pub fn as_record(&self) -> Record<'_> {
        Record {
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: self.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect(),
        }
    }
}
