//! Steps as bytes: the members that the real server puts on the wire (contract.md section 1.2).
//!
//! Owns the state that a connection has: ids, the epoch, what was said and sent. No times: those are the script's.

use super::character::Character;
use super::json::Json;
use super::metrics::{self, Output};
use super::payloads::{Payload, Payloads};
use super::profile::Profile;
use super::random::Random;
use super::response::Latencies;
use super::step::{Status, Step};
use super::words;

const MEMBERS_BYTES: usize = 640;
const METRICS_BYTES: usize = 1_536;
const OUTPUT_BYTES_PER_MS: usize = 48;
const INPUT_BYTES_PER_MS: usize = 32;
const MODALITIES: &str = r#"["text","audio"]"#;

/// What every rendering looks at and none changes.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub profile: &'a Profile,
    pub payloads: &'a Payloads,
    pub session: &'a str,
    pub character: &'a Character,
    pub latencies: Latencies,
}

/// The connection's own state.
#[derive(Debug)]
pub(super) struct Renderer {
    random: Random,
    turn: u64,
    response: String,
    transcript: String,
    output: Output,
    last_audio: Option<Payload>,
}

impl Renderer {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            turn: 0,
            response: String::new(),
            transcript: String::new(),
            output: Output::default(),
            last_audio: None,
        }
    }

    /// Input media, 16 kHz.
    pub(super) fn append(&mut self, scene: &Scene<'_>) -> Json {
        let audio_ms = scene.character.append_ms;
        let payload = self.payload(scene, audio_ms, INPUT_BYTES_PER_MS);
        let mut json = self.event("input_audio_buffer.append", payload.chars());
        json.audio("audio", scene.payloads, payload).text("format", "pcm16").number("sample_rate_hz", 16_000);
        json.number("duration_ms", audio_ms);
        json
    }

    /// The event without its sequence number and receive time. `Step::Replay` is the session's own.
    pub(super) fn step(&mut self, scene: &Scene<'_>, step: Step) -> Json {
        match step {
            Step::Created => self.session_event(scene, "session.created"),
            Step::Updated => self.session_event(scene, "session.updated"),
            Step::StreamStart => Json::event("collector.stream_start", 128),
            Step::SpeechStarted => {
                self.turn += 1;
                self.user_item("input_audio_buffer.speech_started")
            }
            Step::SpeechStopped => self.user_item("input_audio_buffer.speech_stopped"),
            Step::UserItemAdded => {
                let mut json = self.event("conversation.item.added", 0);
                json.open("item").joined("id", &["item_u", &self.turn.to_string()]);
                json.text("type", "message").text("role", "user").text("status", "completed").close();
                json
            }
            Step::Committed => self.user_item("input_audio_buffer.committed"),
            Step::Listen => {
                let mut json = self.event("response.listen", 0);
                json.text("session_id", scene.session).number("epoch", 0).open("response");
                json.text("object", "realtime.response").text("status", "listening").open("metadata");
                json.text("reason", "model_listen").raw("model_listen", "true").close().close();
                json
            }
            Step::ResponseCreated => self.response_created(scene),
            Step::OutputItemAdded => {
                let mut json = self.response_event("response.output_item.added", 0);
                json.open("item").joined("id", &["item_", &self.response]).text("type", "message");
                json.text("role", "assistant").text("status", "in_progress").raw("content", "[]").close();
                json
            }
            Step::Speak => {
                let mut json = self.response_event("response.speak", 0);
                json.open("metadata").text("session_id", scene.session).raw("model_speak", "true").close();
                json
            }
            Step::Text => {
                let from = self.transcript.len();
                words::speak(&mut self.random, &mut self.transcript);
                self.output.tokens += self.random.between(2, 8);
                let mut json = self.response_event("response.output_audio_transcript.delta", 0);
                json.text("delta", &self.transcript[from..]);
                json
            }
            Step::Audio { audio_ms } => self.audio_delta(scene, audio_ms.into()),
            Step::AudioDone => self.response_event("response.output_audio.done", 0),
            Step::TranscriptDone => {
                let mut json = self.response_event("response.output_audio_transcript.done", self.transcript.len());
                json.text("transcript", &self.transcript);
                json
            }
            Step::Done(status) => self.response_done(scene, status),
            Step::PlaybackAck { played_ms } => {
                let mut json = self.event("playback.ack", 0);
                json.joined("item_id", &["item_", &self.response]).number("played_ms", played_ms.into());
                json
            }
            Step::PlaybackAcknowledged { played_ms } => {
                let mut json = self.event("playback.acknowledged", 0);
                json.open("event").joined("item_id", &["item_", &self.response]);
                json.number("played_ms", played_ms.into()).number("committed_ms", played_ms.into()).close();
                json
            }
            Step::Overlap => {
                let mut json = self.event("overlap.decision", 0);
                json.text("session_id", scene.session).number("epoch", 0).text("policy", "barge_in_on_speech");
                json.text("action", "barge_in").text("reason", "server_vad_utterance_active");
                json
            }
            Step::Cancel => self.response_event("response.cancel", 0),
            Step::Cleared => self.response_event("output_audio_buffer.cleared", 0),
            Step::Error(fault) => {
                let mut json = self.event("error", 0);
                json.open("error").text("type", fault.kind()).text("code", fault.code());
                json.text("message", "made-up error").close();
                json
            }
            Step::Resume => {
                let mut json = self.event("session.resume", 0);
                json.text("session_id", scene.session).text("resume_token", "made-up");
                json
            }
            Step::Resumed => {
                let mut json = self.event("session.resumed", 0);
                json.text("session_id", scene.session).number("attachment_generation", 2);
                json.text("resume_token", "made-up");
                json
            }
            Step::Replay => unreachable!("a replay repeats bytes that the session kept"),
            Step::Close => self.event("session.close", 0),
            Step::Closed => self.end("session.closed", scene.session, "client_close"),
            Step::Expired => self.end("session.expired", scene.session, "max_duration"),
        }
    }

    fn event(&mut self, kind: &str, more_bytes: usize) -> Json {
        let mut json = Json::event(kind, MEMBERS_BYTES + more_bytes);
        json.hex("event_id", "event_", [self.random.bits(), self.random.bits()]);
        json
    }

    fn response_event(&mut self, kind: &str, more_bytes: usize) -> Json {
        let mut json = self.event(kind, more_bytes);
        json.text("response_id", &self.response).joined("item_id", &["item_", &self.response]);
        json.number("output_index", 0).number("content_index", 0);
        json
    }

    fn user_item(&mut self, kind: &str) -> Json {
        let mut json = self.event(kind, 0);
        json.joined("item_id", &["item_u", &self.turn.to_string()]);
        json
    }

    fn session_event(&mut self, scene: &Scene<'_>, kind: &str) -> Json {
        let mut json = self.event(kind, 0);
        json.open("session").text("id", scene.session).text("state", "open").number("epoch", 0);
        json.open("capabilities").number("chunk_period_ms", 1_000).raw("supports_session_resume", "true").close();
        json.text("object", "realtime.session").text("model", &scene.profile.model);
        json.text("input_audio_format", "pcm16").text("output_audio_format", "pcm16");
        json.raw("modalities", MODALITIES).close();
        json
    }

    fn end(&mut self, kind: &str, session: &str, reason: &str) -> Json {
        let mut json = self.event(kind, 0);
        json.text("session_id", session).text("reason", reason);
        json.open("event").text("type", kind).text("reason", reason).close();
        json
    }

    fn response_created(&mut self, scene: &Scene<'_>) -> Json {
        self.response = format!("resp-{}-0-{:08x}", scene.session, self.random.bits() >> 32);
        self.transcript.clear();
        self.output = Output::default();
        self.last_audio = None;
        let mut json = self.event("response.created", 0);
        json.open("response").text("id", &self.response).text("object", "realtime.response");
        json.text("status", "in_progress").raw("modalities", MODALITIES).close();
        json.text("response_id", &self.response);
        json
    }

    fn payload(&mut self, scene: &Scene<'_>, audio_ms: u64, bytes_per_ms: usize) -> Payload {
        let real = audio_ms as usize * bytes_per_ms;
        Payload::draw(&mut self.random, scene.profile.payload_bytes.map_or(real, |bytes| bytes as usize))
    }

    fn audio_delta(&mut self, scene: &Scene<'_>, audio_ms: u64) -> Json {
        let payload = self.payload(scene, audio_ms, OUTPUT_BYTES_PER_MS);
        self.last_audio = Some(payload);
        self.output.generated_ms += audio_ms;
        self.output.packets += 1;
        let mut json = self.response_event("response.output_audio.delta", METRICS_BYTES + payload.chars());
        json.audio("delta", scene.payloads, payload).text("format", "pcm16").number("sample_rate_hz", 24_000);
        json.open("metadata").text("session_id", scene.session).number("epoch", 0).raw("model_speak", "true");
        metrics::write(&mut json, scene, self.turn, &self.output, 4, &mut self.random);
        json.number("audio_duration_ms", self.output.generated_ms).close();
        json
    }

    /// Repeats the last chunk's base64 in its metadata, as the server does; that is no audio.
    fn response_done(&mut self, scene: &Scene<'_>, status: Status) -> Json {
        let audio_chars = self.last_audio.map_or(0, Payload::chars);
        let mut json = self.event("response.done", METRICS_BYTES + audio_chars);
        json.open("response").text("id", &self.response).text("object", "realtime.response");
        json.text("status", status.as_str()).open("status_details");
        json.text("type", status.as_str()).text("reason", status.reason()).close().open("metadata");
        json.text("session_id", scene.session).number("epoch", 0).text("response_id", &self.response);
        if let Some(payload) = self.last_audio {
            json.audio("audio", scene.payloads, payload).text("format", "pcm16").number("sample_rate_hz", 24_000);
            json.number("audio_duration_ms", self.output.generated_ms);
        }
        metrics::write(&mut json, scene, self.turn, &self.output, 16, &mut self.random);
        json.close().close();
        json
    }
}
