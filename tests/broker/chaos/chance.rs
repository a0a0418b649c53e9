//! Chance from a seed: what goes wrong, and when.

use std::time::Duration;

/// SplitMix64: the same seed gives the same draws everywhere.
pub struct Chance(u64);

impl Chance {
    /// The draws of one fault; each has its own.
    pub fn of(seed: u64, fault: &str) -> Self {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(fault.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, fold))
    }

    /// One of `0..bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("fits");
        usize::try_from(self.draw() % bound).expect("below a bound that was one")
    }

    /// From nothing up to `longest`.
    pub fn within(&mut self, longest: Duration) -> Duration {
        longest * u32::try_from(self.draw() % 1001).expect("at most a thousand") / 1000
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
