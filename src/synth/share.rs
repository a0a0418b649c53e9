//! Shares: how many sessions, turns or responses of a hundred do something.
//!
//! Owns the number and its spelling on a command line (`5%`, `0.05`).

use std::fmt;
use std::str::FromStr;

const WHOLE: u32 = 1_000_000;

/// A share between none and all, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share(u32);

/// Why a text or a number is no share.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("share {0} must be between 0 and 1, or 0% and 100%")]
pub struct Error(String);

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

impl TryFrom<f64> for Share {
    type Error = Error;

    /// # Errors
    /// A number that is not between 0 and 1.
    fn try_from(share: f64) -> Result<Self, Error> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self((share * f64::from(WHOLE)).round() as u32))
        } else {
            Err(Error(share.to_string()))
        }
    }
}

impl FromStr for Share {
    type Err = Error;

    /// # Errors
    /// A text that is no number, or one out of range.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (digits, scale) = match text.trim().strip_suffix('%') {
            Some(digits) => (digits, 100.0),
            None => (text.trim(), 1.0),
        };
        let number: f64 = digits.trim_end().parse().map_err(|_| Error(text.to_owned()))?;
        Self::try_from(number / scale).map_err(|_| Error(text.to_owned()))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / f64::from(WHOLE / 100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_reads_as_a_percentage_or_a_fraction() {
        assert_eq!("5%".parse(), Ok(Share::percent(5)));
        assert_eq!("0.05".parse(), Ok(Share::percent(5)));
        assert_eq!(Share::percent(5).to_string().parse(), Ok(Share::percent(5)));
    }

    #[test]
    fn a_share_out_of_range_is_an_error_with_the_value() {
        for text in ["101%", "-0.1", "NaN", "many", ""] {
            let error = text.parse::<Share>().expect_err(text);
            assert!(error.to_string().starts_with(&format!("share {text} must")), "{error}");
        }
    }

    #[test]
    fn none_includes_no_draw_and_all_includes_every_draw() {
        assert!(!Share::NONE.includes(0));
        assert!(Share::ALL.includes(Share::DRAWS - 1));
    }
}
