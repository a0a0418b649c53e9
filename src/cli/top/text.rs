//! Text on a terminal: lines, their looks and the width of columns.

use std::fmt;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a piece of a line looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
}

/// A line of the screen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line(pub Vec<(Tone, String)>);

impl Line {
    #[must_use]
    pub fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self(vec![(tone, text.into())])
    }

    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self::of(Tone::Plain, text)
    }

    #[must_use]
    pub fn and(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    /// The line, no wider than `width`.
    #[must_use]
    pub fn within(self, width: usize) -> Self {
        let mut left = width;
        let mut pieces = Vec::new();
        for (tone, text) in self.0 {
            let text = if text.width() > left { fit(&text, left) } else { text };
            left -= text.width();
            pieces.push((tone, text));
        }
        Self(pieces)
    }
}

/// Without its looks.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.0.iter().map(|(_, text)| text.as_str()).collect();
        f.write_str(text.trim_end())
    }
}

/// The text in exactly `width` columns: cut with `…` or filled up.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    let mut fitted = String::new();
    let mut used = 0;
    let cut = text.width() > width;
    for c in text.chars() {
        let columns = c.width().unwrap_or(0);
        if used + columns > width - usize::from(cut && width > 0) {
            break;
        }
        used += columns;
        fitted.push(c);
    }
    if cut && width > 0 {
        used += 1;
        fitted.push('…');
    }
    fitted.extend(std::iter::repeat_n(' ', width - used));
    fitted
}

/// The text in lines no wider than `width`, parted between words.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_its_width() {
        for (text, width, fitted) in [
            ("abc", 5, "abc  "),
            ("abcdef", 4, "abc…"),
            ("你好吗", 6, "你好吗"),
            ("你好吗", 5, "你好…"),
            ("你好吗", 4, "你… "),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit(text, width), fitted, "{text} in {width}");
        }
    }

    #[test]
    fn text_is_parted_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 3), ["one", "two", "three"]);
    }

    #[test]
    fn a_line_is_cut_across_its_pieces() {
        let line = Line::of(Tone::Bold, "abc").and(Tone::Dim, "defg").and(Tone::Plain, "h");
        assert_eq!(line.clone().within(8), line);
        assert_eq!(line.clone().within(5).to_string(), "abcd…");
        assert_eq!(line.within(2).to_string(), "a…");
    }
}
