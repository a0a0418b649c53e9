//! The walk over a JSON text: objects key by key, every other value as the slice it stands in.
//!
//! `jiter` does the reading: it can look at a value before it reads it and skip what nobody asks for, which
//! `serde_json` cannot do for values of an unexpected type, and it knows Python's `NaN` and `Infinity`.

use std::borrow::Cow;

use jiter::{Jiter, JiterResult, Peek};

use super::text::unescape;

/// A JSON value as it stands in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raw<'a> {
    Null,
    Bool(bool),
    /// The number's own text; `NaN`, `Infinity` and `-Infinity` too.
    Number(&'a [u8]),
    /// Between the quotes, escapes as they are.
    String(&'a [u8]),
    /// The whole array, brackets included.
    Array(&'a [u8]),
    /// The whole object, braces included.
    Object(&'a [u8]),
}

impl Raw<'_> {
    /// Whether Python takes the value for true.
    pub fn is_truthy(self) -> bool {
        match self {
            Self::Null | Self::Bool(false) => false,
            Self::Bool(true) => true,
            Self::Number(text) => {
                // Zero in any notation has no other digit before its exponent; `NaN` and `Infinity` have none at all.
                let digits = text.split(|b| matches!(b, b'e' | b'E')).next().unwrap_or_default();
                text.last().is_some_and(u8::is_ascii_alphabetic) || digits.iter().any(|b| matches!(b, b'1'..=b'9'))
            }
            Self::String(text) => !text.is_empty(),
            Self::Array(text) | Self::Object(text) => {
                text[1..text.len() - 1].iter().any(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r'))
            }
        }
    }
}

/// A reader at one place of the text.
pub struct Reader<'a> {
    jiter: Jiter<'a>,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { jiter: Jiter::new(text).with_allow_inf_nan() }
    }

    /// Refuses anything but white space up to the end.
    pub fn finish(&mut self) -> JiterResult<()> {
        self.jiter.finish()
    }

    /// Reads the value here without looking into it.
    pub fn value(&mut self) -> JiterResult<Raw<'a>> {
        let peek = self.jiter.peek()?;
        let start = self.jiter.current_index();
        self.jiter.known_skip(peek)?;
        let text = self.jiter.slice_to_current(start);
        Ok(match peek {
            Peek::Null => Raw::Null,
            Peek::True => Raw::Bool(true),
            Peek::False => Raw::Bool(false),
            Peek::String => Raw::String(&text[1..text.len() - 1]),
            Peek::Array => Raw::Array(text),
            Peek::Object => Raw::Object(text),
            _ => Raw::Number(text),
        })
    }

    /// Walks the object here: `visit` must read or skip the value of each key, which it gets after its escapes, so that no
    /// key can be compared as it stands (contract.md section 1.1). Escapes in keys are rare: without one nothing is copied.
    ///
    /// Returns whether it was an object; any other value is skipped.
    pub fn object(&mut self, mut visit: impl FnMut(&mut Self, Cow<'a, str>) -> JiterResult<()>) -> JiterResult<bool> {
        let peek = self.jiter.peek()?;
        if peek != Peek::Object {
            self.jiter.known_skip(peek)?;
            return Ok(false);
        }
        let Some(mut key) = self.jiter.next_object_bytes()?.map(<[u8]>::len) else { return Ok(true) };
        loop {
            let name = self.key(key);
            visit(self, name)?;
            match self.jiter.next_key_bytes()?.map(<[u8]>::len) {
                Some(len) => key = len,
                None => return Ok(true),
            }
        }
    }

    /// Walks the array here, as [`Reader::object`] does an object.
    pub fn array(&mut self, mut visit: impl FnMut(Raw<'a>)) -> JiterResult<bool> {
        let peek = self.jiter.peek()?;
        if peek != Peek::Array {
            self.jiter.known_skip(peek)?;
            return Ok(false);
        }
        let mut more = self.jiter.known_array()?.is_some();
        while more {
            visit(self.value()?);
            more = self.jiter.array_step()?.is_some();
        }
        Ok(true)
    }

    /// The key just read, `len` bytes long: the reader stands behind its colon.
    fn key(&self, len: usize) -> Cow<'a, str> {
        let before = self.jiter.slice_to_current(0);
        let close = before.iter().rposition(|b| *b == b'"').expect("a key ends with a quote");
        unescape(&before[close - len..close])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Raw<'_> {
        Reader::new(text.as_bytes()).value().expect("valid JSON")
    }

    #[test]
    fn truth_is_pythons() {
        for falsy in ["null", "false", "0", "-0", "0.0", "0e7", "-0.00E+3", r#""""#, "[]", "[ ]", "{}", "{\n}"] {
            assert!(!value(falsy).is_truthy(), "{falsy}");
        }
        for truthy in ["true", "5", "-0.1", "0.01e5", "NaN", "Infinity", "-Infinity", r#"" ""#, "[1]", r#"{"a":1}"#] {
            assert!(value(truthy).is_truthy(), "{truthy}");
        }
    }

    #[test]
    fn keys_come_after_their_escapes_whatever_white_space_is_around_them() {
        let mut keys = Vec::new();
        let text = "{ \"a\" : 1 , \"\\u0062\\\"\"\n:\t{\"x\":[]},\"\":null}";
        let was_object = Reader::new(text.as_bytes()).object(|reader, key| {
            keys.push(key.into_owned());
            reader.value().map(drop)
        });
        assert_eq!(was_object, Ok(true));
        assert_eq!(keys, ["a", "b\"", ""]);
    }

    #[test]
    fn a_value_of_another_type_is_skipped() {
        let mut reader = Reader::new(b"[[1,2],3]");
        assert_eq!(reader.object(|_, _| Ok(())), Ok(false));
        assert_eq!(reader.finish(), Ok(()));
    }
}
