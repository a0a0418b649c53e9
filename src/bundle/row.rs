//! One request row (contract.md section 3).

use serde::Serialize;

use super::ordered::Ordered;
use super::stage::{Stage0Tokens, StageBlock, Stages, TextOutput};
use super::times::Times;
use crate::collector::{Head, Moment, ResponseFacts};
use crate::ids::{ResponseId, SessionId};
use crate::numeric::{r3, r6};
use crate::wire::Scalar;

const CREATED_TO_TEXT: &str = "response.created client receive to first non-empty text delta";
const CREATED_TO_AUDIO: &str = "response.created client receive to first audio packet";
const STAGE0_TPOT: &str = "Stage-0 engine mean time per output token";
const CREATED_TO_LAST_AUDIO: &str =
    "response.created client receive to last audio packet divided by emitted audio duration";

/// A known response with audio, or with a stage-0 snapshot.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RequestRow<'a> {
    session_id: &'a SessionId,
    pub request_index: u32,
    response_id: &'a ResponseId,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_id: Option<&'a str>,
    #[serde(flatten)]
    pub audio: Option<AudioMetrics<'a>>,
    #[serde(skip_serializing_if = "Ordered::is_empty")]
    pub stages: Ordered<StageBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage0_tokens: Option<Stage0Tokens>,
}

/// The part of a row that needs audio packets and a `response.created` in the window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AudioMetrics<'a> {
    source: &'static str,
    measurement_origin: MeasurementOrigin<'a>,
    pub ttft_ms: Option<f64>,
    pub ttfp_ms: Option<f64>,
    audio_generation_ms: Option<f64>,
    audio_duration_ms: f64,
    /// Both only where a server value is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_created_to_first_text_ms: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_created_to_first_audio_ms: Option<Option<f64>>,
    /// Only where there is a stage 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<Option<f64>>,
    pub rtf: Option<f64>,
    pub client_ttft_ms: Option<f64>,
    pub client_ttfp_ms: Option<f64>,
    /// Whose `ttft_ms` and `ttfp_ms` are, where they are.
    #[serde(skip)]
    pub ttft_source: Option<LatencySource>,
    #[serde(skip)]
    pub ttfp_source: Option<LatencySource>,
}

/// Who measured a latency.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencySource {
    /// The server, from the start of the request.
    Server,
    /// The client, from `response.created`: next to nothing where the server sends it and the first output in one burst.
    Client,
}

impl LatencySource {
    /// The source as it stands in the bundle and in labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    fn of(server: Option<f64>, client: Option<f64>) -> Option<Self> {
        server.map(|_| Self::Server).or(client.map(|_| Self::Client))
    }
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct MeasurementOrigin<'a> {
    ttft: &'a str,
    ttfp: &'a str,
    tpot: &'static str,
    rtf: &'static str,
    client_ttft: &'static str,
    client_ttfp: &'static str,
}

impl<'a> RequestRow<'a> {
    /// The row of a response, and how many of its values can't be read; `None` where it gets no row.
    pub fn of(
        session_id: &'a SessionId,
        head: &'a Head,
        times: Times,
        request_index: u32,
        response: &'a ResponseFacts,
    ) -> Option<(Self, u64)> {
        let audio = AudioMetrics::of(response, head, times);
        let Stages { blocks, stage0_tokens, unreadable } = Stages::of(response.in_window.stages());
        if audio.is_none() && stage0_tokens.is_none() {
            return None;
        }
        let row = Self {
            session_id,
            request_index,
            response_id: &response.id,
            split: head.split(),
            sample_id: head.sample_id(),
            audio,
            stages: blocks,
            stage0_tokens,
        };
        Some((row, unreadable))
    }
}

impl RequestRow<'_> {
    /// Leaves out the single intervals; their summaries stay.
    pub fn leave_out_lists(&mut self) {
        let tokens = self.stage0_tokens.iter_mut().map(|tokens| &mut tokens.output);
        tokens.for_each(TextOutput::leave_out_list);
        self.stages.0.iter_mut().for_each(|(_, block)| block.output.leave_out_list());
    }

    /// Leaves out what each stage says, but for `stage0_tokens`.
    pub fn leave_out_stages(&mut self) {
        self.stages = Ordered::default();
    }
}

impl<'a> AudioMetrics<'a> {
    fn of(response: &'a ResponseFacts, head: &Head, times: Times) -> Option<Self> {
        let window = &response.in_window;
        let (created, first_audio, last_audio) = (window.created?, window.first_audio?, window.last_audio?);
        let server_ttft = window.server_ttft_ms().and_then(Scalar::as_measure);
        let server_ttfp = window.server_ttfp_ms().and_then(Scalar::as_measure);
        let by_server = server_ttft.is_some() || server_ttfp.is_some();
        let since_created = |moment: Moment| times.between(created, moment);
        let ms = |seconds: f64| r3(seconds * 1000.0);
        let first_text_ms = window.first_text.and_then(since_created).map(ms);
        let first_audio_ms = since_created(first_audio).map(ms);
        let audio_generation_ms = since_created(last_audio).map(|seconds| r3((seconds * 1000.0).max(0.0)));
        let audio_duration_ms = audio_duration_ms(response, head);
        let stage0 = window.stages().iter().find(|stage| stage.id == "0").map(|stage| &stage.snapshot);
        Some(Self {
            source: if by_server { "server_request_start_and_client_receive" } else { "client_monotonic_receive" },
            measurement_origin: MeasurementOrigin::of(response, server_ttft.is_some(), server_ttfp.is_some()),
            ttft_ms: server_ttft.or(first_text_ms),
            ttfp_ms: server_ttfp.or(first_audio_ms),
            audio_generation_ms,
            audio_duration_ms,
            response_created_to_first_text_ms: by_server.then_some(first_text_ms),
            response_created_to_first_audio_ms: by_server.then_some(first_audio_ms),
            tpot_ms: stage0.map(|stage| stage.vllm_tpot_ms.as_measure()),
            rtf: real_time_factor(audio_generation_ms, audio_duration_ms),
            client_ttft_ms: window.first_text.and_then(since_created).map(|seconds| ms(seconds.max(0.0))),
            client_ttfp_ms: window.client_audio.and_then(since_created).map(|seconds| ms(seconds.max(0.0))),
            ttft_source: LatencySource::of(server_ttft, first_text_ms),
            ttfp_source: LatencySource::of(server_ttfp, first_audio_ms),
        })
    }
}

impl<'a> MeasurementOrigin<'a> {
    fn of(response: &'a ResponseFacts, ttft_by_server: bool, ttfp_by_server: bool) -> Self {
        let server = response.in_window.server_origin();
        let of_server = |used: bool, text: fn(&crate::wire::Origin) -> Option<&String>| {
            server.filter(|_| used).and_then(text).map(String::as_str)
        };
        Self {
            ttft: of_server(ttft_by_server, |origin| origin.ttft.as_ref()).unwrap_or(CREATED_TO_TEXT),
            ttfp: of_server(ttfp_by_server, |origin| origin.ttfp.as_ref()).unwrap_or(CREATED_TO_AUDIO),
            tpot: STAGE0_TPOT,
            rtf: CREATED_TO_LAST_AUDIO,
            client_ttft: CREATED_TO_TEXT,
            client_ttfp: CREATED_TO_AUDIO,
        }
    }
}

/// The duration of a response's audio: what it told itself, else that of its bytes.
pub fn audio_duration_ms(response: &ResponseFacts, head: &Head) -> f64 {
    r3(response.in_window.row_duration_ms().unwrap_or_else(|| head.duration_of_bytes_ms(response.bytes)))
}

/// Generation by duration, of the rounded milliseconds; `None` where either is missing or there is no duration.
pub fn real_time_factor(generation_ms: Option<f64>, duration_ms: f64) -> Option<f64> {
    generation_ms.filter(|_| duration_ms > 0.0).map(|ms| r6((ms / 1000.0) / (duration_ms / 1000.0)))
}
