//! Chance: one stream of ChaCha8 for each purpose, and the shapes drawn from it.
//!
//! Integer arithmetic only: no draw depends on a platform's `exp` or `ln`, so a seed means the same traffic forever.

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use super::share::Share;

/// Quantiles of a lognormal distribution (sigma 0.5): rank in millionths, factor of the median in thousandths.
const LATENCY: [(u64, u64); 16] = [
    (0, 213),
    (10_000, 313),
    (50_000, 439),
    (100_000, 527),
    (200_000, 657),
    (300_000, 769),
    (400_000, 881),
    (500_000, 1_000),
    (600_000, 1_135),
    (700_000, 1_300),
    (800_000, 1_523),
    (900_000, 1_898),
    (950_000, 2_276),
    (990_000, 3_200),
    (999_000, 4_688),
    (1_000_000, 7_030),
];

/// One stream of draws.
#[derive(Debug)]
pub(super) struct Random(ChaCha8Rng);

impl Random {
    /// Streams of one seed are independent of one another.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(stream);
        Self(generator)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        let scaled = (u128::from(self.bits()) * span) >> 64;
        low + u64::try_from(scaled).expect("a 64-bit draw scaled by a span stays below the span")
    }

    pub(super) fn chance(&mut self, share: Share) -> bool {
        share.includes(self.between(0, Share::DRAWS - 1))
    }

    /// A latency in microseconds: lognormal around `median_us`, with a tail up to seven times that.
    pub(super) fn latency_us(&mut self, median_us: u64) -> u64 {
        let rank = self.between(0, LATENCY[LATENCY.len() - 1].0 - 1);
        let above = LATENCY.partition_point(|&(bound, _)| bound <= rank);
        let ((from, low), (to, high)) = (LATENCY[above - 1], LATENCY[above]);
        let factor_millionths = low * 1_000 + (high - low) * 1_000 * (rank - from) / (to - from);
        median_us * factor_millionths / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_stream_give_these_draws_forever() {
        let mut random = Random::new(7, 3);
        let drawn: Vec<u64> = (0..4).map(|_| random.between(0, 999)).collect();
        assert_eq!(drawn, [662, 504, 736, 43]);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::new(1, 0).bits(), Random::new(1, 1).bits());
    }

    #[test]
    fn latencies_lie_around_their_median_with_a_tail() {
        let mut random = Random::new(1, 0);
        let mut drawn: Vec<u64> = (0..10_001).map(|_| random.latency_us(250_000)).collect();
        drawn.sort_unstable();
        assert!((240_000..260_000).contains(&drawn[5_000]), "{}", drawn[5_000]);
        assert!((700_000..900_000).contains(&drawn[9_901]), "{}", drawn[9_901]);
    }

    #[test]
    fn both_bounds_are_drawn_and_nothing_beyond() {
        let mut random = Random::new(1, 0);
        let drawn: std::collections::BTreeSet<u64> = (0..200).map(|_| random.between(3, 5)).collect();
        assert_eq!(drawn, [3, 4, 5].into());
        assert_eq!(random.between(u64::MAX, u64::MAX), u64::MAX);
        random.between(0, u64::MAX);
    }
}
