//! One response as operators ask about it: how it ended, when, and how its audio arrived.

use serde::Serialize;

use super::row::{AudioMetrics, LatencySource, audio_duration_ms};
use crate::collector::{FinalStatus, Head, ResponseFacts};
use crate::ids::ResponseId;
use crate::numeric::r3;

/// A known response, with a row or without one. Times are since the stream start; like all that rests on differences of
/// receive times, they are `None` where those came from two clocks.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ResponseEntry<'a> {
    response_id: &'a ResponseId,
    pub status: FinalStatus,
    /// Whose value the row's `ttft_ms` is.
    pub ttft_source: Option<LatencySource>,
    pub ttfp_source: Option<LatencySource>,
    created_ms: Option<f64>,
    first_text_ms: Option<f64>,
    first_audio_ms: Option<f64>,
    last_audio_ms: Option<f64>,
    /// Its `response.done`, else the client's `response.cancel`.
    ended_ms: Option<f64>,
    audio_packets: u64,
    audio_duration_ms: f64,
    pub max_audio_gap_ms: Option<f64>,
    pub underruns: Option<u64>,
    pub underrun_ms: Option<f64>,
    pub speech_to_cancel_ms: Option<f64>,
}

impl<'a> ResponseEntry<'a> {
    /// The entry of a response and the audio part of its row. `start` is the stream start in seconds.
    pub fn of(head: &Head, start: f64, response: &'a ResponseFacts, row: Option<&AudioMetrics<'_>>) -> Self {
        let one_clock = head.has_one_clock();
        let since_start =
            |at: Option<f64>| at.filter(|at| one_clock && *at >= start).map(|at| r3((at - start) * 1000.0));
        let playback = response.playback.filter(|_| one_clock);
        Self {
            response_id: &response.id,
            status: response.status.unwrap_or(FinalStatus::Unfinished),
            ttft_source: row.and_then(|row| row.ttft_source),
            ttfp_source: row.and_then(|row| row.ttfp_source),
            created_ms: since_start(response.created),
            first_text_ms: since_start(response.first_text.map(|moment| moment.at)),
            first_audio_ms: since_start(response.first_audio.map(|moment| moment.at)),
            last_audio_ms: since_start(response.last_audio.map(|moment| moment.at)),
            ended_ms: since_start(response.ended.or(response.cancel)),
            audio_packets: response.packets,
            audio_duration_ms: audio_duration_ms(response, head),
            max_audio_gap_ms: playback.and_then(|playback| playback.max_gap_ms).map(r3),
            underruns: playback.map(|playback| playback.underruns),
            underrun_ms: playback.map(|playback| r3(playback.underrun_ms)),
            speech_to_cancel_ms: speech_to_cancel_ms(response, start).filter(|_| one_clock),
        }
    }
}

/// From the onset of the user's speech to the end of the response that it cut short.
///
/// Speech that began before the response did is what it answers: then somebody else cancelled it.
fn speech_to_cancel_ms(response: &ResponseFacts, start: f64) -> Option<f64> {
    let (onset, ended) = (response.speech_onset?, response.ended?);
    let is_over_it = onset >= response.created.map_or(start, |created| created.max(start));
    (response.status == Some(FinalStatus::Cancelled) && is_over_it).then(|| r3((ended - onset).max(0.0) * 1000.0))
}
