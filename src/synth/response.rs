//! One response's course: its latencies, its audio packets and when each arrives.
//!
//! Times are microseconds since the traffic started.

use super::random::Random;

const FIRST_TEXT_US: u64 = 180_000;
const TEXT_TO_AUDIO_US: u64 = 120_000;
const SPEECH_US: u64 = 3_500_000;
const LONGEST_SPEECH_US: u64 = 20_000_000;
const TOKEN_US: u64 = 11_000;
/// How much longer a slow server takes.
const SLOWDOWN: u64 = 8;
/// Two events of one burst lie this far apart.
pub(super) const BURST_US: u64 = 20;

/// How a response ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Completed,
    Incomplete,
    Failed,
    /// The user speaks over it.
    BargedIn,
    /// The session ends first: no `response.done`.
    Unfinished,
}

/// A response as it will go, unless something cuts it short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Response {
    pub created_at: u64,
    pub first_text_at: u64,
    pub packets: Vec<Packet>,
    /// Packets that come before anything cuts it short.
    pub shortest: usize,
    pub latencies: Latencies,
}

/// What the server says of its own latencies, microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Latencies {
    pub ttft_us: u64,
    pub ttfp_us: u64,
    pub tpot_us: u64,
}

/// One audio packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packet {
    pub at: u64,
    pub audio_ms: u32,
}

impl Response {
    /// A response to what was committed at `committed_at`.
    pub(super) fn draw(random: &mut Random, committed_at: u64, packet_ms: (u64, u64), slow: bool) -> Self {
        let queued_us = random.latency_us(60_000);
        let load = if slow { SLOWDOWN } else { 1 };
        let text_us = random.latency_us(FIRST_TEXT_US * load);
        let audio_us = text_us + random.latency_us(TEXT_TO_AUDIO_US * load);
        let created_at = committed_at + queued_us;
        let speech_us = random.latency_us(SPEECH_US).clamp(600_000, LONGEST_SPEECH_US);
        let (speech_us, rtf_permille) = if slow {
            (speech_us, random.between(1_050, 1_800))
        } else {
            // Shorter speech could not make up for its own latency.
            (speech_us.max(2 * audio_us), random.between(250, 750))
        };
        let packets = packets(random, created_at, created_at + audio_us, speech_us, packet_ms, rtf_permille);
        Self {
            created_at,
            first_text_at: created_at + text_us,
            shortest: if slow { 1 } else { well_ahead(&packets, created_at) },
            packets,
            latencies: Latencies {
                ttft_us: queued_us + text_us,
                ttfp_us: queued_us + audio_us,
                tpot_us: random.latency_us(TOKEN_US * load),
            },
        }
    }
}

/// Packets that fill the speech, the first at `first_at`, spread so that the last one gives the RTF.
fn packets(
    random: &mut Random,
    created_at: u64,
    first_at: u64,
    speech_us: u64,
    (shortest_ms, longest_ms): (u64, u64),
    rtf_permille: u64,
) -> Vec<Packet> {
    let mut left_ms = speech_us / 1_000;
    let mut durations_ms = Vec::new();
    while left_ms > 0 {
        let audio_ms = random.between(shortest_ms, longest_ms).min(left_ms);
        durations_ms.push(audio_ms);
        left_ms -= audio_ms;
    }
    let last_ms = durations_ms.last().copied().unwrap_or(0);
    let spread_ms = (speech_us / 1_000 - last_ms).max(1);
    let span_us = (created_at + speech_us * rtf_permille / 1_000).saturating_sub(first_at);
    let mut before_ms = 0;
    let mut earliest = first_at;
    let mut packets = Vec::with_capacity(durations_ms.len());
    for audio_ms in durations_ms {
        let jitter_us = if before_ms == 0 { 0 } else { random.between(0, 15_000) };
        let at = (first_at + span_us * before_ms / spread_ms + jitter_us).max(earliest);
        packets.push(Packet { at, audio_ms: u32::try_from(audio_ms).expect("a packet is at most ten seconds") });
        before_ms += audio_ms;
        earliest = at + BURST_US * 3;
    }
    packets
}

/// Packets from which on all that came plays for longer than it took to come: who breaks in has heard that much.
fn well_ahead(packets: &[Packet], created_at: u64) -> usize {
    let (mut audio_us, mut shortest) = (0, 1);
    for (nth, packet) in packets.iter().enumerate() {
        audio_us += u64::from(packet.audio_ms) * 1_000;
        if packet.at - created_at > audio_us * 4 / 5 {
            shortest = (nth + 2).min(packets.len());
        }
    }
    shortest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(slow: bool) -> Vec<Response> {
        let mut random = Random::new(5, 0);
        (0..500).map(|_| Response::draw(&mut random, 1_000_000, (200, 1_000), slow)).collect()
    }

    /// RTF of a response of which so many packets come.
    fn rtf(response: &Response, packets: usize) -> f64 {
        let packets = &response.packets[..packets];
        let speech_ms: u32 = packets.iter().map(|packet| packet.audio_ms).sum();
        let last_at = packets.last().expect("speech is never empty").at;
        (last_at - response.created_at) as f64 / 1_000.0 / f64::from(speech_ms)
    }

    #[test]
    fn audio_comes_faster_than_it_plays_wherever_it_is_cut_unless_the_session_is_slow() {
        for response in drawn(false) {
            for packets in response.shortest..=response.packets.len() {
                assert!(rtf(&response, packets) < 0.9, "{packets} packets of {response:?}");
            }
        }
        let slow = drawn(true);
        assert!(slow.iter().all(|response| rtf(response, response.packets.len()) > 1.0));
        assert!(slow.iter().all(|response| response.shortest == 1));
    }

    #[test]
    fn text_comes_before_audio_and_packets_in_order() {
        for response in drawn(false) {
            assert!(response.created_at < response.first_text_at);
            assert!(response.first_text_at < response.packets[0].at);
            assert!(response.packets.is_sorted_by(|a, b| a.at < b.at));
        }
    }
}
