//! Names that peers choose, as they are shown: short, so that nobody's name makes an answer large.

use std::borrow::Cow;

/// Characters of a name that are shown, at most.
const MAX_CHARACTERS: usize = 64;

/// A name as it is shown: one that is too long is its beginning, a `~` and 16 digits of its own, by which two long ones stay two.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    if name.chars().nth(MAX_CHARACTERS).is_none() {
        return Cow::Borrowed(name);
    }
    let beginning: String = name.chars().take(MAX_CHARACTERS - 17).collect();
    Cow::Owned(format!("{beginning}~{:016x}", digest(name.as_bytes())))
}

/// FNV-1a: the same in every process and release.
fn digest(bytes: &[u8]) -> u64 {
    let add = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_two_of_them_stay_two() {
        let long = |last: &str| "é".repeat(1_000) + last;
        let cut = shown(&long("a")).into_owned();
        assert_eq!((cut.chars().count(), shown(&cut).as_ref()), (MAX_CHARACTERS, cut.as_str()));
        assert_ne!(cut, shown(&long("b")));
        assert!(cut.starts_with("ééé"), "{cut}");
        let fits = "é".repeat(MAX_CHARACTERS);
        assert_eq!(shown(&fits), fits);
    }

    #[test]
    fn the_digits_of_a_name_are_those_of_every_release() {
        assert_eq!((digest(b""), digest(b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }
}
