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
    /// Of the sessions: audio comes slower than it plays (RTF over 1).
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
            errors: Share::percent(2),
            reconnects: Share::percent(5),
            abandoned: Share::percent(2),
            expired: Share::percent(4),
            hang_ups: Share::percent(4),
            slow: Share::percent(6),
            server_metrics: Share::percent(80),
            client_clock: Share::percent(90),
        }
    }
}

impl Profile {
    /// Shortest and longest audio packet, milliseconds, in that order.
    pub(super) fn packet_bounds_ms(&self) -> (u64, u64) {
        let bound = |ms: u32| u64::from(ms.clamp(MIN_PACKET_MS, MAX_PACKET_MS));
        let (low, high) = (bound(*self.packet_ms.start()), bound(*self.packet_ms.end()));
        (low.min(high), low.max(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_bounds_are_ordered_and_within_limits() {
        let turned = RangeInclusive::new(40_000, 0);
        let profile = Profile { packet_ms: turned, ..Profile::default() };
        assert_eq!(profile.packet_bounds_ms(), (20, 10_000));
    }
}
