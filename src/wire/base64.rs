//! The length of a base64 payload, measured where it stands (contract.md section 3, "base64 length").

use super::text::escape;

/// How many bytes a payload decodes to, by the rules of the reference's decoder; `None` when it is invalid.
///
/// `raw` is the inside of the JSON string, escapes as they are. Nothing is copied.
#[must_use]
pub fn decoded_len(raw: &[u8]) -> Option<u64> {
    let data = strip_pads(raw);
    let pads = raw.len() - data.len();
    if count_alphabet(data) == data.len() {
        return close(data.len() as u64, pads as u64);
    }
    decoded_len_of_any(raw)
}

fn strip_pads(raw: &[u8]) -> &[u8] {
    let end = raw.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1);
    &raw[..end]
}

/// What encoders write has the alphabet only, so this is counted without a branch per byte.
fn count_alphabet(raw: &[u8]) -> usize {
    // 255 bytes at a time: the count of a block fits a byte, which lets the compiler use whole vectors. It does so only
    // where the addition can't overflow, so the fold is a wrapping one: `sum` is checked in every profile here.
    let count = |block: &[u8]| block.iter().fold(0u8, |count, b| count.wrapping_add(u8::from(is_alphabet(*b))));
    raw.chunks(255).map(|block| usize::from(count(block))).sum()
}

const fn is_alphabet(b: u8) -> bool {
    ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'0') < 10) | (b == b'+') | (b == b'/')
}

/// The slow way, for payloads with escapes, line breaks or anything else between.
fn decoded_len_of_any(raw: &[u8]) -> Option<u64> {
    let (mut data, mut pads) = (0, 0);
    let mut rest = raw;
    while let Some(first) = rest.first() {
        let (ch, len) = if *first == b'\\' { escape(rest) } else { (char::from(*first), 1) };
        // Bytes of a longer UTF-8 character are not ASCII either.
        if !ch.is_ascii() {
            return None;
        }
        match ch {
            '=' => pads += 1,
            ch if is_alphabet(ch as u8) => (data, pads) = (data + 1, 0),
            _ => {}
        }
        rest = &rest[len..];
    }
    close(data, pads)
}

/// `data` characters, `pads` of `=` behind the last of them.
fn close(data: u64, pads: u64) -> Option<u64> {
    let complete = match data % 4 {
        0 => true,
        2 => pads >= 2,
        3 => pads >= 1,
        _ => false,
    };
    complete.then_some(data * 3 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_the_references() {
        for (raw, expected) in [
            ("", Some(0)),
            ("AAAA", Some(3)),
            ("AAA=", Some(2)),
            ("AA==", Some(1)),
            ("AA=", None),
            ("AA", None),
            ("A===", None),
            ("AAA", None),
            ("AA==AA==", Some(3)),
            ("AAAA====", Some(3)),
            ("=AAAA", Some(3)),
            ("AA AA", Some(3)),
            ("AA-_AA", Some(3)),
            (r"AA\/\u002bA\n\/==", Some(4)),
            (r"\/\/\u002b\u003d", Some(2)),
            (r"AA\u003d\u003d", Some(1)),
            ("AAAA\u{e9}", None),
            (r"AAAA\u00e9", None),
        ] {
            assert_eq!(decoded_len(raw.as_bytes()), expected, "{raw}");
        }
    }

    #[test]
    fn a_long_payload_is_counted_over_block_borders() {
        for n in [254, 255, 256, 510, 511, 4096] {
            assert_eq!(count_alphabet(&vec![b'z'; n]), n);
        }
        assert_eq!(decoded_len(&[b'A'; 4000]), Some(3000));
    }

    #[test]
    fn the_alphabet_is_base64s() {
        let alphabet: Vec<u8> = (0..=255).filter(|b| is_alphabet(*b)).collect();
        assert_eq!(alphabet, b"+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
    }
}
