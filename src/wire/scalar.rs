//! Loosely typed numbers: what Python's `int(x or 0)`, `float(x or 0)` and `isinstance(x, float)` see.

use serde::{Deserialize, Serialize};

use super::json::Raw;
use super::text::unescape;

/// A JSON value where a number is expected, kept as far as the contract asks.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Scalar {
    /// Absent, `null`, an empty string, array or object.
    #[default]
    Null,
    Bool(bool),
    Int(i128),
    /// Not finite too. Integers past 128 bits stand here, and those past every double are not finite.
    Float(f64),
    /// A string, with what `int()` and `float()` read in it.
    Text {
        int: Option<i128>,
        float: Option<f64>,
    },
    /// A non-empty array or object.
    Unreadable,
}

impl Scalar {
    /// Takes what a number needs out of a JSON value.
    #[must_use]
    pub fn read(raw: Raw<'_>) -> Self {
        match raw {
            Raw::Bool(value) => Self::Bool(value),
            Raw::Number(text) => Self::number(text),
            _ if !raw.is_truthy() => Self::Null,
            Raw::String(text) => {
                let text = unescape(text);
                Self::Text {
                    int: Self::parse_int(&text),
                    float: without_separators(&text).and_then(|t| t.parse().ok()),
                }
            }
            _ => Self::Unreadable,
        }
    }

    /// What Python's `int(text)` reads, digits in ASCII only; past 128 bits the nearest that fits.
    #[must_use]
    pub fn parse_int(text: &str) -> Option<i128> {
        saturating_int(&without_separators(text)?)
    }

    fn number(text: &[u8]) -> Self {
        let text = str::from_utf8(text).unwrap_or_default();
        match text {
            "NaN" => return Self::Float(f64::NAN),
            "Infinity" => return Self::Float(f64::INFINITY),
            "-Infinity" => return Self::Float(f64::NEG_INFINITY),
            _ => {}
        }
        let value: f64 = text.parse().unwrap_or(f64::NAN);
        if text.contains(['.', 'e', 'E']) {
            return Self::Float(value);
        }
        text.parse().map_or(Self::Float(value), Self::Int)
    }

    /// The value of a JSON number, finite or not; booleans are none.
    #[must_use]
    pub fn as_number(self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a number that is finite and >= 0; booleans are none.
    #[must_use]
    pub fn as_measure(self) -> Option<f64> {
        self.as_number().filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// The value of a number or boolean, finite or not.
    #[must_use]
    pub fn as_number_or_bool(self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(u8::from(value))),
            other => other.as_number(),
        }
    }

    /// Python's truth.
    #[must_use]
    pub fn is_truthy(self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Text { .. } | Self::Unreadable => true,
        }
    }

    /// `int(x or 0)`; `Err` where Python can't read the value.
    ///
    /// # Errors
    /// For texts that are no integer, arrays, objects and numbers that are not finite.
    pub fn to_int(self) -> Result<i128, Unreadable> {
        match self {
            Self::Null => Ok(0),
            Self::Bool(value) => Ok(i128::from(value)),
            Self::Int(value) => Ok(value),
            Self::Float(value) if value.is_finite() => Ok(value as i128),
            Self::Text { int: Some(value), .. } => Ok(value),
            Self::Float(_) | Self::Text { .. } | Self::Unreadable => Err(Unreadable),
        }
    }

    /// `float(x or 0)`; `Err` where Python can't read the value.
    ///
    /// # Errors
    /// For texts that are no number, arrays and objects.
    pub fn to_float(self) -> Result<f64, Unreadable> {
        match self {
            Self::Null => Ok(0.0),
            Self::Bool(value) => Ok(f64::from(u8::from(value))),
            Self::Int(value) => Ok(value as f64),
            // `-0.0 or 0` is 0.
            Self::Float(value) => Ok(if value == 0.0 { 0.0 } else { value }),
            Self::Text { float: Some(value), .. } => Ok(value),
            Self::Text { .. } | Self::Unreadable => Err(Unreadable),
        }
    }
}

/// An integer of ASCII digits with or without a sign; past 128 bits the nearest that fits.
pub fn saturating_int(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_int = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_int.then(|| text.parse().unwrap_or(if text.starts_with('-') { i128::MIN } else { i128::MAX }))
}

/// A value that Python would have raised an error for: it stands as 0 and is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// Drops the white space around a number and the underscores between its digits, as Python allows them; `None` where an
/// underscore stands elsewhere.
fn without_separators(text: &str) -> Option<String> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let misplaced = |at: usize| bytes[at] == b'_' && !(digit(at.checked_sub(1)) && digit(Some(at + 1)));
    (!(0..bytes.len()).any(misplaced)).then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Reader;

    fn read(json: &str) -> Scalar {
        Scalar::read(Reader::new(json.as_bytes()).value().expect("valid JSON"))
    }

    #[test]
    fn integers_are_read_as_python_reads_them() {
        for (json, expected) in [
            ("12.9", Ok(12)),
            ("-3.5", Ok(-3)),
            ("null", Ok(0)),
            ("true", Ok(1)),
            ("[]", Ok(0)),
            (r#""""#, Ok(0)),
            (r#"" 1_000 ""#, Ok(1000)),
            (r#""12.9""#, Err(Unreadable)),
            (r#""_1""#, Err(Unreadable)),
            (r#"[1]"#, Err(Unreadable)),
            ("NaN", Err(Unreadable)),
            ("1e400", Err(Unreadable)),
            ("100000000000000000000000000", Ok(100_000_000_000_000_000_000_000_000)),
        ] {
            assert_eq!(read(json).to_int(), expected, "{json}");
        }
    }

    #[test]
    fn floats_are_read_as_python_reads_them() {
        for (json, expected) in [
            (r#""12.5""#, Ok(12.5)),
            (r#""x""#, Err(Unreadable)),
            ("false", Ok(0.0)),
            ("-3.5", Ok(-3.5)),
            ("1e400", Ok(f64::INFINITY)),
            (r#""-inf""#, Ok(f64::NEG_INFINITY)),
        ] {
            assert_eq!(read(json).to_float(), expected, "{json}");
        }
        assert!(read("NaN").to_float().is_ok_and(f64::is_nan));
    }

    #[test]
    fn a_measure_is_a_finite_number_from_zero_up_and_no_boolean() {
        assert_eq!(read("0").as_measure(), Some(0.0));
        assert_eq!(read("1.5").as_measure(), Some(1.5));
        for json in ["true", "-1", "NaN", "Infinity", "1e400", "\"1\"", "null", "[1]"] {
            assert_eq!(read(json).as_measure(), None, "{json}");
        }
        assert_eq!(read("true").as_number_or_bool(), Some(1.0));
    }

    #[test]
    fn an_integer_past_128_bits_saturates_and_one_past_every_double_is_not_finite() {
        for (digits, float) in [(40, 1e40), (400, f64::INFINITY)] {
            let number = "9".repeat(digits);
            for (sign, float, int) in [("", float, i128::MAX), ("-", -float, i128::MIN)] {
                assert_eq!(read(&format!("{sign}{number}")), Scalar::Float(float), "{digits}");
                let text = Scalar::Text { int: Some(int), float: Some(float) };
                assert_eq!(read(&format!(r#""{sign}{number}""#)), text, "{digits}");
            }
        }
        assert_eq!(read(&"9".repeat(40)).to_int(), Ok(i128::MAX));
    }

    #[test]
    fn digits_of_a_numeric_string_are_ascii() {
        let too_long = format!("\"{}x\"", "9".repeat(40));
        for json in [r#""\u0661\u0662""#, "\"\u{ff11}\"", r#""\u0967.5""#, &too_long] {
            assert_eq!(read(json), Scalar::Text { int: None, float: None }, "{json}");
        }
    }
}
