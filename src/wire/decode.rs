//! From a record's value to an [`Event`]: one pass over the text, or the reason it is a dead letter.

use std::fmt;

use jiter::{JiterError, JiterResult};
use memchr::memchr2_iter;

use super::event::{Event, Kind, Payload, Text};
use super::json::{Raw, Reader};
use super::reason::{DeadLetterReason, EventClass};
use super::scalar::{Scalar, saturating_int};
use super::text::mend_lone_surrogates;
use super::unsupported::{Unsupported, may_be_an_event};

/// Deepest nesting of arrays and objects that is read, the event itself included (contract.md section 1.1).
pub const MAX_DEPTH: usize = 128;

/// Why a value is no event. The detail names places and sizes, never content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    pub reason: DeadLetterReason,
    pub detail: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.detail)
    }
}

impl std::error::Error for Error {}

/// Reads events; keeps the buffer for the rare record that has to be mended first.
#[derive(Debug)]
pub struct Decoder {
    max_bytes: usize,
    mended: Vec<u8>,
}

impl Decoder {
    /// A decoder that refuses values over `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, mended: Vec::new() }
    }

    /// Reads one record's value.
    ///
    /// # Errors
    /// When the value is a dead letter by contract.md section 1.1.
    pub fn decode<'a>(&'a mut self, value: &'a [u8]) -> Result<Event<'a>, Error> {
        if value.len() > self.max_bytes {
            let detail = format!("{} bytes, over limits.record_bytes = {}", value.len(), self.max_bytes);
            return Err(Error { reason: DeadLetterReason::TooLarge, detail });
        }
        if let Err(e) = str::from_utf8(value) {
            let detail = format!("byte {} is no UTF-8", e.valid_up_to());
            return Err(Error { reason: DeadLetterReason::InvalidUtf8, detail });
        }
        if let Some(at) = too_deep_at(value) {
            let detail = format!("nesting over {MAX_DEPTH} at byte {at}");
            return Err(Error { reason: DeadLetterReason::TooDeep, detail });
        }
        match read(value) {
            Ok(event) => event.ok_or_else(not_an_object),
            Err(first) => {
                // Once more for what Python and JavaScript write and jiter refuses.
                let Some(mended) = mend_lone_surrogates(value) else { return Err(invalid(&first)) };
                self.mended = mended;
                read(&self.mended).map_err(|e| invalid(&e))?.ok_or_else(not_an_object)
            }
        }
    }
}

fn not_an_object() -> Error {
    Error { reason: DeadLetterReason::NotAnObject, detail: "the value is JSON, but not an object".into() }
}

fn invalid(e: &JiterError) -> Error {
    Error { reason: DeadLetterReason::InvalidJson, detail: e.to_string() }
}

/// Where nesting passes [`MAX_DEPTH`].
fn too_deep_at(json: &[u8]) -> Option<usize> {
    // Without that many brackets there can't be that much nesting; looking for so many is cheap.
    if memchr2_iter(b'[', b'{', json).take(MAX_DEPTH + 1).count() <= MAX_DEPTH {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, b) in json.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some(at);
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// What is gathered before the rules of precedence are applied.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<Kind>,
    session_id: Option<Text<'a>>,
    session_object_id: Option<Text<'a>>,
    model: Option<Text<'a>>,
    response_id: Option<Text<'a>>,
    event_id: Option<Text<'a>>,
    seq: Option<i128>,
    received_at_s: Option<f64>,
    delta: Payload<'a>,
    audio: Payload<'a>,
    sample_rate_hz: Option<f64>,
    reason: Option<Text<'a>>,
    action: Option<Text<'a>>,
    code: Option<Text<'a>>,
    error: ErrorObject<'a>,
    response: Response<'a>,
    metadata: Metadata<'a>,
    omni: Omni<'a>,
    request_metrics: Option<&'a [u8]>,
    /// A key of another protocol.
    foreign: Option<Unsupported>,
    /// What may be an event within this object.
    inner: Option<Raw<'a>>,
}

#[derive(Default)]
struct ErrorObject<'a> {
    code: Option<Text<'a>>,
    kind: Option<Text<'a>>,
}

#[derive(Default)]
struct Response<'a> {
    id: Option<Text<'a>>,
    status: Option<Text<'a>>,
    metadata: Metadata<'a>,
}

#[derive(Default)]
struct Metadata<'a> {
    audio_duration_ms: Scalar,
    stage: Places<'a>,
    request: Places<'a>,
}

/// Where metrics may stand in an event, in the order they are looked for (contract.md section 3).
#[derive(Clone, Copy, Debug, Default)]
struct Places<'a> {
    omni: Option<&'a [u8]>,
    own: Option<&'a [u8]>,
    own_omni: Option<&'a [u8]>,
    duplex_event: Option<&'a [u8]>,
}

#[derive(Default)]
struct Omni<'a> {
    stage: Option<&'a [u8]>,
    request: Option<&'a [u8]>,
}

/// Reads a whole text; `None` when it is JSON but no object.
fn read(json: &[u8]) -> JiterResult<Option<Event<'_>>> {
    let mut fields = Fields::default();
    let mut reader = Reader::new(json);
    let is_object = reader.object(|reader, key| fields.read(reader, &key))?;
    reader.finish()?;
    Ok(is_object.then(|| fields.into_event()))
}

fn text<'a>(reader: &mut Reader<'a>) -> JiterResult<Option<Text<'a>>> {
    Ok(match reader.value()? {
        Raw::String(text) => Some(Text(text)),
        _ => None,
    })
}

/// A string that says something: an empty id, name or label is as if it were not there (contract.md section 1).
fn name<'a>(reader: &mut Reader<'a>) -> JiterResult<Option<Text<'a>>> {
    Ok(text(reader)?.filter(|text| !text.is_empty()))
}

fn object<'a>(reader: &mut Reader<'a>) -> JiterResult<Option<&'a [u8]>> {
    Ok(match reader.value()? {
        Raw::Object(text) => Some(text),
        _ => None,
    })
}

impl<'a> Fields<'a> {
    fn read(&mut self, reader: &mut Reader<'a>, key: &str) -> JiterResult<()> {
        match key {
            "type" => self.kind = text(reader)?.map(|name| Kind::of(&name.decode())),
            "session_id" => self.session_id = name(reader)?,
            "session" => {
                (self.session_object_id, self.model) = (None, None);
                reader.object(|reader, key| {
                    match &*key {
                        "id" => self.session_object_id = name(reader)?,
                        "model" => self.model = name(reader)?,
                        _ => drop(reader.value()?),
                    }
                    Ok(())
                })?;
            }
            "response_id" => self.response_id = text(reader)?,
            "response" => self.response = Response::read(reader)?,
            "event_id" => self.event_id = name(reader)?,
            "server_event_seq" => self.seq = integer(reader.value()?),
            "_client_received_at_s" => {
                self.received_at_s = match reader.value()? {
                    raw @ Raw::Number(_) => Scalar::read(raw).as_number(),
                    _ => None,
                };
            }
            "delta" => self.delta = Payload::of(reader.value()?),
            "audio" => self.audio = Payload::of(reader.value()?),
            "sample_rate_hz" => self.sample_rate_hz = sample_rate(reader.value()?),
            "metadata" => self.metadata = Metadata::read(reader)?,
            "vllm_omni" => self.omni = Omni::read(reader)?,
            "response_request_metrics" => self.request_metrics = object(reader)?,
            "reason" => self.reason = name(reader)?,
            "action" => self.action = name(reader)?,
            "code" => self.code = name(reader)?,
            "error" => {
                self.error = ErrorObject::default();
                reader.object(|reader, key| {
                    match &*key {
                        "code" => self.error.code = name(reader)?,
                        "type" => self.error.kind = name(reader)?,
                        _ => drop(reader.value()?),
                    }
                    Ok(())
                })?;
            }
            key => {
                let value = reader.value()?;
                self.inner = Some(value).filter(|value| may_be_an_event(key, *value)).or(self.inner);
                self.foreign = self.foreign.or_else(|| Unsupported::of_key(key));
            }
        }
        Ok(())
    }

    /// What the event is; one without a `type` may be of a shape that is known and not read.
    fn kind(&self) -> Kind {
        self.kind.unwrap_or_else(|| {
            let shape = self.foreign.or_else(|| self.inner.and_then(Unsupported::of_envelope));
            Kind::Other(shape.map_or(EventClass::Other, EventClass::Unsupported))
        })
    }

    fn into_event(self) -> Event<'a> {
        let (own, of_response) = (&self.metadata, &self.response.metadata);
        let stage = Places { omni: self.omni.stage, ..own.stage };
        let request = Places { omni: self.omni.request, ..own.request };
        Event {
            kind: self.kind(),
            session_id: self.session_id.or(self.session_object_id),
            model: self.model,
            response_id: self.response_id.or(self.response.id),
            event_id: self.event_id,
            seq: self.seq,
            received_at_s: self.received_at_s,
            delta: self.delta,
            audio: self.audio,
            sample_rate_hz: self.sample_rate_hz,
            audio_duration_ms: own.audio_duration_ms,
            stage_metrics: stage.first().or(of_response.stage.first()),
            request_metrics: self.request_metrics.or(request.first()).or(of_response.request.first()),
            status: self.response.status,
            reason: self.reason,
            action: self.action,
            error_code: self.error.code.or(self.error.kind).or(self.code),
        }
    }
}

impl<'a> Places<'a> {
    fn first(&self) -> Option<&'a [u8]> {
        self.omni.or(self.own).or(self.own_omni).or(self.duplex_event)
    }
}

impl<'a> Response<'a> {
    fn read(reader: &mut Reader<'a>) -> JiterResult<Self> {
        let mut response = Self::default();
        reader.object(|reader, key| {
            match &*key {
                "id" => response.id = text(reader)?,
                "status" => response.status = name(reader)?,
                "metadata" => response.metadata = Metadata::read(reader)?,
                _ => drop(reader.value()?),
            }
            Ok(())
        })?;
        Ok(response)
    }
}

impl<'a> Metadata<'a> {
    fn read(reader: &mut Reader<'a>) -> JiterResult<Self> {
        let mut metadata = Self::default();
        reader.object(|reader, key| {
            match &*key {
                "audio_duration_ms" => metadata.audio_duration_ms = Scalar::read(reader.value()?),
                "stage_metrics" => metadata.stage.own = object(reader)?,
                "response_request_metrics" => metadata.request.own = object(reader)?,
                "vllm_omni" => {
                    let omni = Omni::read(reader)?;
                    (metadata.stage.own_omni, metadata.request.own_omni) = (omni.stage, omni.request);
                }
                "duplex_event" => metadata.request.duplex_event = Omni::read(reader)?.request,
                _ => drop(reader.value()?),
            }
            Ok(())
        })?;
        Ok(metadata)
    }
}

impl<'a> Omni<'a> {
    fn read(reader: &mut Reader<'a>) -> JiterResult<Self> {
        let mut omni = Self::default();
        reader.object(|reader, key| {
            match &*key {
                "stage_metrics" => omni.stage = object(reader)?,
                "response_request_metrics" => omni.request = object(reader)?,
                _ => drop(reader.value()?),
            }
            Ok(())
        })?;
        Ok(omni)
    }
}

/// An integer of any size; past 128 bits the nearest that fits. Booleans and `1.0` are none.
fn integer(raw: Raw<'_>) -> Option<i128> {
    match raw {
        Raw::Number(text) => str::from_utf8(text).ok().and_then(saturating_int),
        _ => None,
    }
}

/// A positive integer; `true` is 1.
fn sample_rate(raw: Raw<'_>) -> Option<f64> {
    match raw {
        Raw::Bool(true) => Some(1.0),
        raw => integer(raw).filter(|rate| *rate > 0).map(|rate| rate as f64),
    }
}
