//! Text from elsewhere on a terminal.

use std::fmt::{self, Write as _};

use serde::Deserialize;

/// Text from elsewhere, a session's id for instance: anything may be in it. What is displayed has everything escaped that a
/// terminal would act on or not show: control characters, marks that turn the direction of text, invisible ones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Foreign(pub String);

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\'' => f.write_char(c),
            c => write!(f, "{}", c.escape_debug()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        for (hostile, shown) in [
            ("\u{1b}[2Jgone\r\n\u{7}", r"\u{1b}[2Jgone\r\n\u{7}"),
            ("\u{9b}31m\u{7f}\0", r"\u{9b}31m\u{7f}\0"),
            ("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{301}", r"a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{301}"),
            ("\u{2028}\u{85}\u{a0}", r"\u{2028}\u{85}\u{a0}"),
            (r"\u{1b}", r"\\u{1b}"),
            (r#"it's "fine" 你好 ä"#, r#"it's "fine" 你好 ä"#),
        ] {
            assert_eq!(Foreign(hostile.into()).to_string(), shown);
        }
    }
}
