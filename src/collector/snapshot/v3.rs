//! The layouts of versions 1 to 3 as those of version 5. They knew neither playback nor ends of responses nor the onset of speech.
//!
//! What they did not know stays unknown: an upgraded session leaves it out rather than guess. Never changed.

use serde::Deserialize;

use super::v5::{self, Chosen, Clock, End, Moment};
use crate::collector::tallies::Tallies;
use crate::collector::{FinalStatus, Playback};
use crate::ids::{Offset, ResponseId};
use crate::time::Timestamp;
use crate::wire::{RequestMetrics, StageSnapshot};

#[derive(Deserialize)]
pub(super) struct Head {
    opened_at: Timestamp,
    last_event_at: Timestamp,
    ended: Option<End>,
    first_offset: Offset,
    last_offset: Offset,
    first_event: Option<Timestamp>,
    last_event: Option<Timestamp>,
    clock: Clock,
    run_id: Option<String>,
    model: Option<String>,
    created_model: Option<String>,
    split: Option<String>,
    sample_id: Option<String>,
    last_seq: Option<i128>,
    sample_rate_hz: Option<f64>,
    start: StreamStart,
    tallies: Tallies,
    known: u32,
    responses: u32,
    truncated: bool,
}

#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Held(Vec<HeldFacts>);

#[derive(Deserialize)]
struct StreamStart {
    marker: Option<f64>,
    input_audio_append: Option<f64>,
    session_created: Option<f64>,
    first_event: Option<f64>,
    chosen: Option<Chosen>,
    /// Empty in version 3, which has [`Held`] instead.
    held: Vec<HeldFacts>,
    held_cost: usize,
}

#[derive(Deserialize)]
struct HeldFacts {
    at: f64,
    ordinal: u64,
    response: u32,
    facts: Windowed,
}

#[derive(Deserialize)]
struct Windowed {
    created: bool,
    text: bool,
    audio: Option<Audio>,
    stages: Vec<(String, StageSnapshot)>,
    request: Option<RequestMetrics>,
}

#[derive(Deserialize)]
struct Audio {
    packet: bool,
    row_duration_ms: Option<f64>,
    stream_duration_ms: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Response {
    id: ResponseId,
    request_index: Option<u32>,
    status: Option<FinalStatus>,
    bytes: u64,
    created: Option<f64>,
    first_text: Option<Moment>,
    first_audio: Option<Moment>,
    last_audio: Option<Moment>,
    client_audio: Option<f64>,
    packets: u64,
    row_duration_ms: Option<f64>,
    stream_duration_ms: Option<f64>,
    stages: Vec<(String, StageSnapshot)>,
    server: RequestMetrics,
}

impl From<Head> for v5::Head {
    fn from(old: Head) -> Self {
        Self {
            opened_at: old.opened_at,
            last_event_at: old.last_event_at,
            ended: old.ended,
            first_offset: old.first_offset,
            last_offset: old.last_offset,
            first_event: old.first_event,
            last_event: old.last_event,
            clock: old.clock,
            run_id: old.run_id,
            model: old.model,
            created_model: old.created_model,
            split: old.split,
            sample_id: old.sample_id,
            last_seq: old.last_seq,
            sample_rate_hz: old.sample_rate_hz,
            received: None,
            speech_onset: None,
            start: old.start.into(),
            tallies: old.tallies,
            known: old.known,
            responses: old.responses,
            truncated: old.truncated,
        }
    }
}

impl From<StreamStart> for v5::StreamStart {
    fn from(old: StreamStart) -> Self {
        Self {
            marker: old.marker,
            input_audio_append: old.input_audio_append,
            session_created: old.session_created,
            first_event: old.first_event,
            chosen: old.chosen,
            held: old.held.into_iter().map(Into::into).collect(),
            held_cost: old.held_cost,
        }
    }
}

impl From<Held> for v5::Held {
    fn from(old: Held) -> Self {
        Self(old.0.into_iter().map(Into::into).collect())
    }
}

impl From<HeldFacts> for v5::HeldFacts {
    fn from(old: HeldFacts) -> Self {
        let Windowed { created, text, audio, stages, request } = old.facts;
        let audio = audio.map(|Audio { packet, row_duration_ms, stream_duration_ms }| v5::Audio {
            packet,
            row_duration_ms,
            stream_duration_ms,
            bytes_ms: None,
        });
        let facts = v5::Windowed { created, text, audio, stages, request };
        Self { at: old.at, ordinal: old.ordinal, response: old.response, facts }
    }
}

impl From<Response> for v5::Response {
    fn from(old: Response) -> Self {
        Self {
            id: old.id,
            request_index: old.request_index,
            status: old.status,
            bytes: old.bytes,
            ended: None,
            cancel: None,
            speech_onset: None,
            created: old.created,
            first_text: old.first_text,
            first_audio: old.first_audio,
            last_audio: old.last_audio,
            client_audio: old.client_audio,
            packets: old.packets,
            playback: (old.packets == 0).then(Playback::default),
            row_duration_ms: old.row_duration_ms,
            stream_duration_ms: old.stream_duration_ms,
            stages: old.stages,
            server: old.server,
        }
    }
}
