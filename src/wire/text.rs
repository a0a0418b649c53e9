//! Strings of the wire: escapes decoded where somebody wants the text, lone surrogates mended.

use std::borrow::Cow;

/// Decodes the inside of a JSON string that the reader accepted.
///
/// Surrogates come in pairs here: [`mend_lone_surrogates`] has replaced the others.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\') {
        return String::from_utf8_lossy(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (ch, len) = escape(&rest[at..]);
        out.extend_from_slice(ch.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + len..];
    }
    out.extend_from_slice(rest);
    Cow::Owned(String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// The character that the escape at the start of `raw` stands for, and the escape's length.
pub fn escape(raw: &[u8]) -> (char, usize) {
    let simple = match raw.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let high = unit(raw).unwrap_or(0xfffd);
            if let (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) = (high, unit(raw.get(6..).unwrap_or_default())) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
            }
            return (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 6);
        }
        Some(other) => char::from(*other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (simple, 2.min(raw.len()))
}

/// The UTF-16 unit of the `\uXXXX` at the start of `raw`.
fn unit(raw: &[u8]) -> Option<u32> {
    let hex = raw.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// Replaces lone surrogates by U+FFFD, escaped; `None` when there are none (contract.md section 1.1).
///
/// What Python's and JavaScript's encoders write for them is no Unicode, so no text can keep them.
pub fn mend_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(next) = json[at..].iter().position(|b| *b == b'\\') {
        at += next;
        // A backslash stands in strings only, so the escapes can be found without reading the JSON.
        at += match (unit(&json[at..]), unit(json.get(at + 6..).unwrap_or_default())) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.get_or_insert_with(|| json.to_vec())[at..at + 6].copy_from_slice(b"\\ufffd");
                6
            }
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        if at >= json.len() {
            break;
        }
    }
    mended
}

/// Cuts a text to `limit` bytes at a character; says whether anything was lost.
pub fn cut(text: &str, limit: usize) -> (&str, bool) {
    if text.len() <= limit {
        return (text, false);
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(unescape(br#"a\/\u002b\n\"\\ \ud83d\ude00\u4f60"#), "a/+\n\"\\ \u{1f600}\u{4f60}");
        assert!(matches!(unescape(b"plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn lone_surrogates_are_mended_and_pairs_kept() {
        let json = br#"{"a":"\ud83d","b":"\ude00x","c":"\ud83d\ude00","d":"\\ud83d","e":"\ud83d\u0041"}"#;
        let expected = br#"{"a":"\ufffd","b":"\ufffdx","c":"\ud83d\ude00","d":"\\ud83d","e":"\ufffd\u0041"}"#;
        assert_eq!(mend_lone_surrogates(json).as_deref(), Some(&expected[..]));
        assert_eq!(mend_lone_surrogates(expected), None);
    }

    #[test]
    fn a_cut_text_stays_text() {
        assert_eq!(cut("a\u{4f60}b", 3), ("a", true));
        assert_eq!(cut("a\u{4f60}b", 5), ("a\u{4f60}b", false));
    }

    #[test]
    fn a_backslash_at_the_end_is_no_reason_to_panic() {
        assert_eq!(mend_lone_surrogates(b"\"\\"), None);
        assert_eq!(mend_lone_surrogates(b"\\u12"), None);
    }
}
