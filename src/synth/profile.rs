//! Settings of made-up traffic: how much, how big, and how often something goes wrong.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::share::Share;
use crate::time::Timestamp;

/// Shortest audio packet: bounds the events of one turn.
const MIN_PACKET_MS: u32 = 20;
/// Longest audio packet, so that one record stays within what a broker takes.
const MAX_PACKET_MS: u32 = 10_000;

/// What kind of traffic to make up. Equal profiles give equal bytes.
///
/// Audio sizes, the tap and the client clock change the bytes and never the course of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    pub seed: u64,
    /// Sessions made in all.
    pub sessions: u64,
    /// Sessions at once; a new one starts when an old one ends. Zero counts as one.
    pub concurrency: usize,
    /// When the first session starts.
    pub start: Timestamp,
    /// The first `concurrency` sessions start spread over this span.
    pub ramp: Duration,
    /// Duration of one audio packet, milliseconds; held between 20 and 10 000.
    pub packet_ms: RangeInclusive<u32>,
    /// Bytes of every audio packet before base64; without it, 48 a millisecond of speech (PCM16 at 24 kHz)
    /// and 32 a millisecond of input (16 kHz).
    pub payload_bytes: Option<u32>,
    /// `session.model` of `session.created`.
    pub model: String,
    /// The `run_id` header of every record.
    pub run_id: Option<String>,
    pub tap: Tap,
    /// Turns of one session.
    pub turns: RangeInclusive<u32>,
    /// Of the responses that are not their session's last: cut short by the user.
    pub barge_ins: Share,
    /// Of the sessions: the model listens and never speaks.
    pub listens_only: Share,
    /// Of the turns: an `error`, half of them with a failed response.
    pub errors: Share,
    /// Of the sessions: the connection is lost once, and the server replays its last events.
    pub reconnects: Share,
    /// Of the sessions: no end at all, only silence.
    pub abandoned: Share,
    /// Of the sessions with an end: `session.expired` in place of `session.closed`.
    pub expired: Share,
    /// Of the sessions: the end comes while a response is under way.
    pub hang_ups: Share,
    /// Of the sessions: the server is slow. Text comes late, and audio slower than it plays (RTF over 1).
    pub slow: Share,
    /// Of the sessions: stage metrics and the server's request metrics are on the wire.
    pub server_metrics: Share,
    /// Of the sessions: `_client_received_at_s` is on every event; the others have Kafka's timestamp only.
    pub client_clock: Share,
}

/// Where the producer taps the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tap {
    /// Events of the server only.
    ServerEvents,
    /// Events of both sides, and the client's `collector.stream_start`.
    BothDirections,
}

impl Default for Profile {
    /// A healthy server: within every objective of the status page, with the mishaps of any traffic.
    fn default() -> Self {
        Self {
            seed: 0,
            sessions: 100,
            concurrency: 10,
            start: Timestamp(1_790_000_000_000),
            ramp: Duration::from_secs(10),
            packet_ms: 200..=1_000,
            payload_bytes: None,
            model: "openbmb/MiniCPM-o-4_5".to_owned(),
            run_id: None,
            tap: Tap::BothDirections,
            turns: 1..=6,
            barge_ins: Share::percent(15),
            listens_only: Share::percent(3),
            errors: Share::percent(1),
            reconnects: Share::percent(5),
            abandoned: Share::percent(1),
            expired: Share::percent(1),
            hang_ups: Share::percent(4),
            slow: Share::NONE,
            server_metrics: Share::percent(80),
            client_clock: Share::percent(90),
        }
    }
}

impl Profile {
    /// A server in trouble: most sessions are slow, and many break.
    #[must_use]
    pub fn degraded() -> Self {
        Self {
            errors: Share::percent(10),
            abandoned: Share::percent(5),
            expired: Share::percent(20),
            slow: Share::percent(70),
            ..Self::default()
        }
    }

    /// Shortest and longest audio packet, milliseconds, in that order.
    pub(super) fn packet_bounds_ms(&self) -> (u64, u64) {
        let bound = |ms: u32| u64::from(ms.clamp(MIN_PACKET_MS, MAX_PACKET_MS));
        let (low, high) = (bound(*self.packet_ms.start()), bound(*self.packet_ms.end()));
        (low.min(high), low.max(high))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::super::Traffic;
    use super::*;

    /// Parts of what there is: of responses by the client's own times, and of sessions.
    #[derive(Debug)]
    struct Parts {
        /// First text later than a second.
        late_text: f64,
        /// First audio later than two.
        late_audio: f64,
        /// Audio that came in more than nine tenths of the time that it plays.
        behind: f64,
        not_closed: f64,
    }

    #[derive(Default)]
    struct Response {
        first_text: Option<f64>,
        first_audio: Option<f64>,
        rtf: f64,
    }

    fn parts(profile: Profile) -> Parts {
        let mut traffic = Traffic::new(Profile { client_clock: Share::ALL, payload_bytes: Some(1), ..profile });
        let mut responses = BTreeMap::<String, (f64, Response)>::new();
        for event in traffic.by_ref() {
            let event: Value = serde_json::from_slice(&event.value).expect("an event is JSON");
            let at = event["_client_received_at_s"].as_f64().expect("a receive time");
            let Some(id) = event["response_id"].as_str() else { continue };
            let kind = event["type"].as_str().expect("a type");
            let (created, response) = responses.entry(id.to_owned()).or_insert((at, Response::default()));
            let after = at - *created;
            match kind {
                "response.output_audio_transcript.delta" => drop(response.first_text.get_or_insert(after)),
                "response.output_audio.delta" => {
                    response.first_audio.get_or_insert(after);
                    response.rtf = after * 1_000.0 / event["metadata"]["audio_duration_ms"].as_f64().expect("a length");
                }
                _ => {}
            }
        }
        let of = |count: fn(&Response) -> bool| {
            let count = responses.values().filter(|(_, response)| count(response)).count();
            count as f64 / responses.len() as f64
        };
        let counts = traffic.counts();
        Parts {
            late_text: of(|response| response.first_text.is_some_and(|after| after > 1.0)),
            late_audio: of(|response| response.first_audio.is_some_and(|after| after > 2.0)),
            behind: of(|response| response.rtf > 0.9),
            not_closed: (counts.expired + counts.abandoned) as f64 / counts.sessions as f64,
        }
    }

    /// What the status page and the alerts call healthy, with room to spare: they look at a few sessions at a time.
    #[test]
    fn the_default_server_is_healthy_and_a_degraded_one_is_slow_behind_and_breaks() {
        let of = |profile: Profile| parts(Profile { sessions: 300, packet_ms: 200..=200, ..profile });
        let Parts { late_text, late_audio, behind, not_closed } = of(Profile::default());
        assert!(
            late_text < 0.01 && late_audio < 0.005 && behind < 0.005 && not_closed < 0.04,
            "{late_text} {late_audio} {behind} {not_closed}"
        );
        let Parts { late_text, late_audio, behind, not_closed } = of(Profile::degraded());
        assert!(
            late_text > 0.4 && late_audio > 0.1 && behind > 0.5 && not_closed > 0.15,
            "{late_text} {late_audio} {behind} {not_closed}"
        );
    }

    #[test]
    fn packet_bounds_are_ordered_and_within_limits() {
        let turned = RangeInclusive::new(40_000, 0);
        let profile = Profile { packet_ms: turned, ..Profile::default() };
        assert_eq!(profile.packet_bounds_ms(), (20, 10_000));
    }
}
