//! One response as operators ask about it: how it ended, when, and how its audio arrived.

use serde::Serialize;

use super::row::{AudioMetrics, LatencySource, audio_duration_ms};
use super::times::Times;
use crate::collector::{FinalStatus, Head, Moment, ResponseFacts};
use crate::ids::ResponseId;
use crate::numeric::r3;

/// A known response, with a row or without one. Times are since the stream start; like all that rests on differences of
/// receive times, they are `None` where those do not fit together.
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
    audio_packets: u32,
    audio_duration_ms: f64,
    pub max_audio_gap_ms: Option<f64>,
    pub underruns: Option<u64>,
    pub underrun_ms: Option<f64>,
    pub speech_to_cancel_ms: Option<f64>,
}

impl<'a> ResponseEntry<'a> {
    /// The entry of a response and the audio part of its row.
    pub fn of(head: &Head, times: Times, response: &'a ResponseFacts, row: Option<&AudioMetrics<'_>>) -> Self {
        let since_start = |moment: Option<Moment>| {
            let seconds = moment.and_then(|moment| times.since_start(moment));
            seconds.filter(|seconds| *seconds >= 0.0).map(|seconds| r3(seconds * 1000.0))
        };
        let window = &response.in_window;
        let playback = times.figure(window.playback);
        Self {
            response_id: &response.id,
            status: response.status.unwrap_or(FinalStatus::Unfinished),
            ttft_source: row.and_then(|row| row.ttft_source),
            ttfp_source: row.and_then(|row| row.ttfp_source),
            created_ms: since_start(window.created),
            first_text_ms: since_start(window.first_text),
            first_audio_ms: since_start(window.first_audio),
            last_audio_ms: since_start(window.last_audio),
            ended_ms: since_start(response.ended),
            audio_packets: window.packets,
            audio_duration_ms: audio_duration_ms(response, head),
            max_audio_gap_ms: playback.and_then(|playback| playback.max_gap_ms).map(r3),
            underruns: playback.map(|playback| playback.underruns),
            underrun_ms: playback.map(|playback| r3(playback.underrun_ms)),
            speech_to_cancel_ms: speech_to_cancel_ms(response, times),
        }
    }
}

/// From the onset of the user's speech to the end of the response that it cut short.
///
/// Speech that began before the response did is what it answers: then somebody else cancelled it.
fn speech_to_cancel_ms(response: &ResponseFacts, times: Times) -> Option<f64> {
    let (onset, ended) = (**response.speech_onset.as_ref()?, response.ended?);
    let since_created = response.in_window.created.map_or(Some(0.0), |created| times.between(created, onset))?;
    let is_over_it = since_created >= 0.0 && times.since_start(onset)? >= 0.0;
    let seconds = times.between(onset, ended)?;
    (response.status == Some(FinalStatus::Cancelled) && is_over_it).then(|| r3(seconds.max(0.0) * 1000.0))
}
