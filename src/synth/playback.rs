//! The client's loudspeaker: packets are played one after another, never before they arrive.
//!
//! Times are microseconds since the traffic started.

/// The client acknowledges playback once in so many packets, and at the end.
const PACKETS_PER_ACK: usize = 3;

/// What was heard of one response.
#[derive(Debug, Default)]
pub(super) struct Playback(Vec<Played>);

/// How much was played when a packet's last sound was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Played {
    pub at: u64,
    pub played_ms: u32,
}

impl Playback {
    pub(super) fn add(&mut self, arrived_at: u64, audio_ms: u32) {
        let Played { at, played_ms } = self.0.last().copied().unwrap_or_default();
        let heard_at = at.max(arrived_at) + u64::from(audio_ms) * 1_000;
        self.0.push(Played { at: heard_at, played_ms: played_ms + audio_ms });
    }

    /// What the client acknowledges, in order.
    pub(super) fn acknowledged(&self) -> impl Iterator<Item = Played> {
        let last = self.0.len().saturating_sub(1);
        let is_due = move |nth: usize| nth.is_multiple_of(PACKETS_PER_ACK) || nth == last;
        self.0.iter().enumerate().filter(move |&(nth, _)| is_due(nth)).map(|(_, &played)| played)
    }

    /// When the last sound was heard; 0 when there was none.
    pub(super) fn heard_at(&self) -> u64 {
        self.0.last().map_or(0, |played| played.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_waits_for_the_one_before_it_and_a_late_one_for_its_arrival() {
        let mut playback = Playback::default();
        for arrived_at in [1_000_000, 1_100_000, 9_000_000] {
            playback.add(arrived_at, 500);
        }
        let heard: Vec<_> = playback.0.iter().map(|played| (played.at, played.played_ms)).collect();
        assert_eq!(heard, [(1_500_000, 500), (2_000_000, 1_000), (9_500_000, 1_500)]);
        let acknowledged: Vec<_> = playback.acknowledged().map(|played| played.played_ms).collect();
        assert_eq!(acknowledged, [500, 1_500]);
        assert_eq!(playback.heard_at(), 9_500_000);
    }
}
