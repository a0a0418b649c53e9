//! What a file is that is no capture, told from its beginning: its name and how to make a capture of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::IgnoredAny;

/// What some editors put before UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A format that captures come in and that is not read as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForeignFormat {
    name: &'static str,
    /// A command that makes a capture of what it reads from standard input, or what else to do.
    remedy: Remedy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Remedy {
    Command(&'static str),
    Words(&'static str),
}

impl fmt::Display for ForeignFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not one record or event a line; ", self.name)?;
        match self.remedy {
            Remedy::Command(command) => write!(f, "pipe it through `{command}` into `duplex-collector replay -`"),
            Remedy::Words(words) => f.write_str(words),
        }
    }
}

const fn format(name: &'static str, command: &'static str) -> ForeignFormat {
    ForeignFormat { name, remedy: Remedy::Command(command) }
}

/// By the bytes that such a file begins with.
const BY_MAGIC: [(&[u8], ForeignFormat); 9] = [
    (b"\x1f\x8b", format("gzip", "gunzip -c")),
    (b"\x28\xb5\x2f\xfd", format("zstd", "zstd -dc")),
    (b"BZh", format("bzip2", "bzip2 -dc")),
    (b"\xfd7zXZ\0", format("xz", "xz -dc")),
    (b"PK\x03\x04", format("zip", "funzip")),
    (b"PAR1", ForeignFormat { name: "Parquet", remedy: Remedy::Words("write its rows as lines of JSON first") }),
    (b"\xff\xfe", format("UTF-16", "iconv -f UTF-16 -t UTF-8")),
    (b"\xfe\xff", format("UTF-16", "iconv -f UTF-16 -t UTF-8")),
    (b"Obj\x01", ForeignFormat { name: "Avro", remedy: Remedy::Words("write its records as lines of JSON first") }),
];

const ARRAY: ForeignFormat = format("one JSON array", "jq -c '.[]'");
const PRETTY_PRINTED: ForeignFormat = format("pretty-printed JSON", "jq -c .");
const RPK: ForeignFormat = format(
    "records as rpk prints them",
    "jq -c '{topic,partition,offset,ts:.timestamp,headers:[.headers[]?|.key,.value],key,payload:.value}'",
);
const OTHER_RECORDS: ForeignFormat = ForeignFormat {
    name: "records as another tool prints them",
    remedy: Remedy::Words("read the topic with `kcat -C -J`"),
};

/// The format of a file that begins so, where it is known and no capture.
pub fn of_beginning(bytes: &[u8]) -> Option<ForeignFormat> {
    if let Some((_, format)) = BY_MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(*format);
    }
    // Text in UTF-16 without a mark: of JSON's first characters one of the two bytes is 0.
    match bytes {
        [a, 0, b, 0, ..] if *a != 0 && *b != 0 => return Some(format("UTF-16", "iconv -f UTF-16LE -t UTF-8")),
        [0, a, 0, b, ..] if *a != 0 && *b != 0 => return Some(format("UTF-16", "iconv -f UTF-16BE -t UTF-8")),
        _ => {}
    }
    // An array of objects: an empty one, or one of numbers, is a line that is no event.
    let inside = bytes.trim_ascii_start().strip_prefix(b"[")?.trim_ascii_start();
    inside.starts_with(b"{").then_some(ARRAY)
}

/// The format of a file with this first line.
pub fn of_first_line(line: &[u8]) -> Option<ForeignFormat> {
    match line.trim_ascii() {
        b"{" => Some(PRETTY_PRINTED),
        b"[" => Some(ARRAY),
        line => of_record(line),
    }
}

/// The shape of another tool's record: an object without a type that has a value and its place.
fn of_record(line: &[u8]) -> Option<ForeignFormat> {
    let keys: BTreeMap<String, IgnoredAny> = serde_json::from_slice(line).ok()?;
    let has = |key: &str| keys.keys().any(|name| name.eq_ignore_ascii_case(key));
    if has("type") || !has("value") || !has("offset") {
        return None;
    }
    let is_rpks = ["topic", "partition", "offset", "value"].iter().all(|key| keys.contains_key(*key));
    Some(if is_rpks { RPK } else { OTHER_RECORDS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_named_by_how_its_file_begins() {
        for (bytes, name) in [
            (&b"\x1f\x8b\x08\x00"[..], "gzip"),
            (b"\x28\xb5\x2f\xfd\x04", "zstd"),
            (b"BZh91AY", "bzip2"),
            (b"\xfd7zXZ\0\0", "xz"),
            (b"PK\x03\x04\x14", "zip"),
            (b"PAR1\x15", "Parquet"),
            (b"Obj\x01\x04", "Avro"),
            (b"\xff\xfe{\0", "UTF-16"),
            (b"\xfe\xff\0{", "UTF-16"),
            (b"{\0\"\0t\0", "UTF-16"),
            (b"\0{\0\"\0t", "UTF-16"),
            (b" \n[\n {", "one JSON array"),
        ] {
            assert_eq!(of_beginning(bytes).map(|format| format.name), Some(name), "{bytes:?}");
        }
        for bytes in [&b""[..], b"{", b"{\"type\":\"error\"}\n", b"[]\n{}", b"[1]", b"\x1f", b"hello", b"\0\0\0\0"] {
            assert_eq!(of_beginning(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_format_is_named_by_its_first_line() {
        for (line, name) in [
            ("{\n", Some("pretty-printed JSON")),
            ("[\r\n", Some("one JSON array")),
            (
                r#"{"topic":"t","key":"k","value":"{}","timestamp":1,"partition":0,"offset":0}"#,
                Some("records as rpk prints them"),
            ),
            (r#"{"Topic":"t","Offset":0,"Value":"e30="}"#, Some("records as another tool prints them")),
            (r#"{"topic":"t","partition":0,"offset":0,"payload":"{}"}"#, None),
            (r#"{"type":"x","value":1,"offset":2}"#, None),
            (r#"{"value":1}"#, None),
            ("{}", None),
            ("x", None),
        ] {
            assert_eq!(of_first_line(line.as_bytes()).map(|format| format.name), name, "{line}");
        }
    }
}
