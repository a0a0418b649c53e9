//! Shapes of voice events that are known and not read: others' protocols, and an envelope around an event.
//!
//! They carry no audio and no text by contract.md, so their sessions have no figures. Counted under a class of their own, they
//! tell a topic of the wrong shape from a server that is silent.

use super::event::Kind;
use super::json::{Raw, Reader};
use super::reason::EventClass;
use super::text::unescape;

/// A shape that is known and not read. A closed set: it is logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unsupported {
    /// `response.audio.delta` and its like, for what is `response.output_audio.delta` now.
    OpenAiBeta,
    /// An object around the event, or around its text.
    Envelope,
    GeminiLive,
    NovaSonic,
    ElevenLabs,
}

impl Unsupported {
    /// Every shape, in order.
    pub const ALL: [Self; 5] = [Self::OpenAiBeta, Self::Envelope, Self::GeminiLive, Self::NovaSonic, Self::ElevenLabs];

    /// The shape in words, for tables and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiBeta => "response.audio.* of OpenAI's older beta",
            Self::Envelope => "an envelope around the event",
            Self::GeminiLive => "Gemini Live",
            Self::NovaSonic => "Amazon Nova Sonic",
            Self::ElevenLabs => "ElevenLabs Agents",
        }
    }

    /// The shape whose events have such a `type`.
    pub(super) fn of_type(name: &str) -> Option<Self> {
        Some(match name {
            "response.audio.delta"
            | "response.audio.done"
            | "response.audio_transcript.delta"
            | "response.audio_transcript.done" => Self::OpenAiBeta,
            "audio" | "agent_response" | "user_transcript" | "conversation_initiation_metadata" => Self::ElevenLabs,
            _ => return None,
        })
    }

    /// The shape whose events have such a key and no `type`.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        Some(match key {
            "serverContent" | "setupComplete" | "realtimeInput" | "clientContent" => Self::GeminiLive,
            "user_audio_chunk" => Self::ElevenLabs,
            _ => return None,
        })
    }

    /// The shape of an event without a `type` within which there is a value that [`may_be_an_event`].
    pub(super) fn of_envelope(value: Raw<'_>) -> Option<Self> {
        match value {
            Raw::Object(inner) => of_object(inner),
            Raw::String(text) => of_object(unescape(text).as_bytes()),
            _ => None,
        }
    }
}

/// Whether a value stands where an envelope has its event, and is an object or the text of one.
pub fn may_be_an_event(key: &str, value: Raw<'_>) -> bool {
    matches!(key, "event" | "data" | "message" | "payload" | "value")
        && match value {
            Raw::Object(_) => true,
            Raw::String(text) => text.starts_with(b"{"),
            _ => false,
        }
}

fn of_object(json: &[u8]) -> Option<Unsupported> {
    let mut shape = None;
    // A text that is no JSON is no event either.
    let read = Reader::new(json).object(|reader, key| {
        match (&*key, reader.value()?) {
            ("type", Raw::String(name)) if Kind::of(&unescape(name)).class() != EventClass::Other => {
                shape = Some(Unsupported::Envelope);
            }
            ("sessionStart" | "contentStart" | "audioInput" | "audioOutput" | "textOutput", Raw::Object(_)) => {
                shape = shape.or(Some(Unsupported::NovaSonic));
            }
            _ => {}
        }
        Ok(())
    });
    shape.filter(|_| read.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Decoder;

    fn class(json: &str) -> EventClass {
        Decoder::new(1 << 20).decode(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e}")).kind.class()
    }

    #[test]
    fn a_shape_that_is_known_and_not_read_has_a_class_of_its_own() {
        for (json, shape) in [
            (r#"{"type":"response.audio.delta","delta":"AAAA"}"#, Unsupported::OpenAiBeta),
            (r#"{"type":"response.audio.done"}"#, Unsupported::OpenAiBeta),
            (r#"{"type":"response.audio_transcript.delta","delta":"hi"}"#, Unsupported::OpenAiBeta),
            (r#"{"event":{"type":"response.output_audio.delta"}}"#, Unsupported::Envelope),
            (r#"{"direction":"out","data":{"delta":"AAAA","type":"response.audio.delta"}}"#, Unsupported::Envelope),
            (r#"{"message":"{\"type\":\"session.created\"}"}"#, Unsupported::Envelope),
            (r#"{"payload":{"type":"error"},"message":"sent on"}"#, Unsupported::Envelope),
            (r#"{"pa\u0079load":"{\"typ\\u0065\":\"error\"}","type":5}"#, Unsupported::Envelope),
            (r#"{"serverContent":{"modelTurn":{"parts":[]}}}"#, Unsupported::GeminiLive),
            (r#"{"event":{"audioOutput":{"content":"AAAA"}}}"#, Unsupported::NovaSonic),
            (r#"{"type":"audio","audio_event":{"audio_base_64":"AAAA"}}"#, Unsupported::ElevenLabs),
        ] {
            assert_eq!(class(json), EventClass::Unsupported(shape), "{json}");
        }
    }

    #[test]
    fn an_event_that_is_known_or_like_no_other_keeps_its_class() {
        for (json, expected) in [
            (r#"{"type":"session.closed","event":{"type":"session.closed"}}"#, EventClass::Session),
            (r#"{"type":"response.output_audio.delta","serverContent":{}}"#, EventClass::Audio),
            (r#"{"type":"response.text.delta"}"#, EventClass::Text),
            (r#"{"type":"turn.event","event":"started"}"#, EventClass::Other),
            (r#"{"type":"duplex.raw.future","event":{"type":"response.created"}}"#, EventClass::Other),
            (r#"{"event":{"type":"purchase"},"data":[{"type":"error"}]}"#, EventClass::Other),
            (r#"{"message":"{\"type\":\"error\""}"#, EventClass::Other),
            (r#"{"message":"{}"}"#, EventClass::Other),
        ] {
            assert_eq!(class(json), expected, "{json}");
        }
    }
}
