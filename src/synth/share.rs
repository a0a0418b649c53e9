//! Shares: how many sessions, turns or responses of a hundred do something.

const WHOLE: u32 = 1_000_000;

/// A share between none and all, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share(u32);

impl Share {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(WHOLE);

    /// So many of a hundred; over a hundred is all.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        if percent >= 100 { Self::ALL } else { Self(percent * (WHOLE / 100)) }
    }

    /// Whether a draw of 0 to 999 999 falls into the share.
    pub(super) fn includes(self, draw: u64) -> bool {
        draw < u64::from(self.0)
    }

    /// How many draws `includes` tells apart.
    pub(super) const DRAWS: u64 = WHOLE as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_includes_no_draw_and_all_includes_every_draw() {
        assert!(!Share::NONE.includes(0));
        assert!(Share::ALL.includes(Share::DRAWS - 1));
    }
}
