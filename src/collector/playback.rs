//! How a response's audio arrived, and whether a loudspeaker ran dry on the way.

use serde::{Deserialize, Serialize};

use super::fact::Audio;

/// Silence that a listener takes for part of the speech. Audio later than this after the last sound is an underrun:
/// vLLM-Omni's threshold of audio continuity.
const UNDERRUN_MS: f64 = 100.0;

/// The loudspeaker of one response, in constant space.
///
/// Playback begins with the first packet. A packet's audio counts by its cumulative `metadata.audio_duration_ms`, as the
/// row reads it; a packet without one adds its bytes, at the sample rate known when it came. What was received before a
/// packet has been heard `received_ms + underrun_ms` after the first. A packet more than 100 ms later is one
/// underrun, of the whole time since then; smaller delays are not forgotten, and add up until they are one.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Playback {
    /// Largest time between two consecutive packets; `None` with less than two. A packet stamped before the one that
    /// came before it left no gap.
    pub max_gap_ms: Option<f64>,
    pub underruns: u64,
    /// What all underruns took.
    pub underrun_ms: f64,
    received_ms: f64,
}

impl Playback {
    /// The loudspeaker after one more packet; `None` where the duration of its audio is not known.
    ///
    /// Times are seconds since the packet before, which the first has not, and since the first.
    #[must_use]
    pub fn after(mut self, since_last_s: Option<f64>, since_first_s: f64, audio: Audio, audio_ms: f64) -> Option<Self> {
        if let Some(gap_s) = since_last_s {
            let gap_ms = (gap_s * 1000.0).max(0.0);
            self.max_gap_ms = Some(self.max_gap_ms.map_or(gap_ms, |largest| largest.max(gap_ms)));
        }
        let dry_ms = since_first_s * 1000.0 - self.underrun_ms - self.received_ms;
        if dry_ms > UNDERRUN_MS {
            self.underruns += 1;
            self.underrun_ms += dry_ms;
        }
        self.received_ms = match audio {
            Audio::Empty => self.received_ms,
            Audio::SoFar | Audio::SoFarOfRow => self.received_ms.max(audio_ms),
            Audio::OfBytes => self.received_ms + audio_ms,
            Audio::Unknown => return None,
        };
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets by arrival in milliseconds after the first and duration so far.
    fn heard(packets: &[(f64, f64)]) -> (Option<f64>, u64, f64) {
        let packets = packets.iter().map(|&(at, ms)| (at, so_far(ms)));
        let playback = play(packets).expect("every duration is known");
        (playback.max_gap_ms, playback.underruns, playback.underrun_ms)
    }

    fn so_far(ms: f64) -> (Audio, f64) {
        (Audio::SoFar, ms)
    }

    fn play(packets: impl IntoIterator<Item = (f64, (Audio, f64))>) -> Option<Playback> {
        let mut last = None;
        packets.into_iter().try_fold(Playback::default(), |playback, (at_ms, (audio, ms))| {
            let at = at_ms / 1000.0;
            playback.after(last.replace(at).map(|last| at - last), at, audio, ms)
        })
    }

    #[test]
    fn one_packet_leaves_no_gap_and_packets_in_time_no_underrun() {
        assert_eq!(heard(&[(0.0, 500.0)]), (None, 0, 0.0));
        assert_eq!(heard(&[(0.0, 500.0), (250.0, 1000.0), (1000.0, 1500.0)]), (Some(750.0), 0, 0.0));
    }

    #[test]
    fn an_underrun_begins_past_the_threshold_and_counts_whole() {
        assert_eq!(heard(&[(0.0, 500.0), (600.0, 1000.0)]), (Some(600.0), 0, 0.0));
        assert_eq!(heard(&[(0.0, 500.0), (625.0, 1000.0)]), (Some(625.0), 1, 125.0));
    }

    #[test]
    fn playback_goes_on_from_where_it_stalled() {
        // Dry for 250 ms, so the second 500 ms last until 1250 and the third packet is in time.
        let packets = [(0.0, 500.0), (750.0, 1000.0), (1250.0, 1500.0), (2000.0, 2000.0)];
        assert_eq!(heard(&packets), (Some(750.0), 2, 500.0));
    }

    #[test]
    fn small_delays_add_up_to_an_underrun() {
        assert_eq!(heard(&[(0.0, 500.0), (562.5, 1000.0), (1125.0, 1500.0)]), (Some(562.5), 1, 125.0));
    }

    #[test]
    fn a_packet_stamped_earlier_leaves_no_gap() {
        assert_eq!(heard(&[(0.0, 500.0), (-250.0, 1000.0)]), (Some(0.0), 0, 0.0));
    }

    #[test]
    fn bytes_count_where_a_packet_has_no_cumulative_duration() {
        let bytes = || (Audio::OfBytes, 500.0);
        let playback = play([(0.0, bytes()), (500.0, bytes()), (1250.0, bytes())]).expect("durations are known");
        assert_eq!((playback.underruns, playback.underrun_ms), (1, 250.0));
        let playback = play([(0.0, so_far(1000.0)), (500.0, bytes()), (1500.0, bytes())]);
        assert_eq!(playback.map(|playback| playback.underruns), Some(0));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(play([(0.0, so_far(500.0)), (100.0, (Audio::Unknown, 0.0))]), None);
    }
}
