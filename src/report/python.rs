//! JSON as Python writes it, made JSON as everybody reads it.

use std::borrow::Cow;

use memchr::memmem;

/// What Python writes for a number that is not finite.
const NOT_FINITE: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// The text with `null` in the place of each number that is not finite; nothing is copied where there is none.
///
/// Outside its strings JSON has no other place for these letters, so a text that is no JSON stays none.
pub fn finite(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    if NOT_FINITE[..2].iter().all(|name| memmem::find(bytes, name).is_none()) {
        return Cow::Borrowed(json);
    }
    let mut mended = String::with_capacity(json.len());
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = bytes[at..].iter().position(|b| matches!(b, b'"' | b'N' | b'I' | b'-')) {
        at += found;
        if bytes[at] == b'"' {
            at = end_of_string(bytes, at);
        } else if let Some(name) = NOT_FINITE.iter().find(|name| bytes[at..].starts_with(name)) {
            mended.push_str(&json[copied..at]);
            mended.push_str("null");
            at += name.len();
            copied = at;
        } else {
            at += 1;
        }
    }
    mended.push_str(&json[copied..]);
    Cow::Owned(mended)
}

/// The place behind the string that begins at `start`, or the text's end where it does not end.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        // The character behind a backslash ends no string.
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_become_null_outside_of_strings() {
        for (python, expected) in [
            (r#"{"a": NaN, "b": [Infinity, -Infinity,-1], "c": 1}"#, r#"{"a": null, "b": [null, null,-1], "c": 1}"#),
            (r#"{"NaN": "Infinity \" NaN \\", "b": NaN}"#, r#"{"NaN": "Infinity \" NaN \\", "b": null}"#),
            (r#"["é-Infinity\\\"NaN", NaN]"#, r#"["é-Infinity\\\"NaN", null]"#),
            ("NaN", "null"),
        ] {
            assert_eq!(finite(python), expected);
        }
    }

    #[test]
    fn a_text_without_one_is_not_copied() {
        assert!(matches!(finite(r#"{"a":1,"b":"-"}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for broken in ["[-NaN]", "[1NaN]", "[NaNNaN]", "[--Infinity]", "[NaN", "[Nan, NaN]", r#"["NaN]"#, r#"[NaN, "\"#]
        {
            assert!(serde_json::from_str::<serde_json::Value>(&finite(broken)).is_err(), "{broken}");
        }
    }
}
