//! A JSON object under construction, written straight into its bytes.

use std::io::Write as _;

use super::payloads::{Payload, Payloads};

/// Writes members in the order of the calls. Keys are names of the contract and need no escapes.
#[derive(Debug)]
pub(super) struct Json(Vec<u8>);

impl Json {
    /// Opens an event of that type; `capacity` in bytes.
    pub(super) fn event(kind: &str, capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        let mut json = Self(out);
        json.text("type", kind);
        json
    }

    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        if !matches!(self.0.last(), Some(b'{' | b'[')) {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
        self
    }

    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.joined(key, &[value])
    }

    /// A string made of parts.
    pub(super) fn joined(&mut self, key: &str, parts: &[&str]) -> &mut Self {
        self.key(key);
        self.0.push(b'"');
        for part in parts {
            self.escaped(part);
        }
        self.0.push(b'"');
        self
    }

    /// A string of a fixed start and 128 random bits in hexadecimal.
    pub(super) fn hex(&mut self, key: &str, start: &str, bits: [u64; 2]) -> &mut Self {
        self.key(key);
        self.0.push(b'"');
        self.0.extend_from_slice(start.as_bytes());
        for nibble in (0..32).rev() {
            let half = bits[1 - nibble / 16];
            self.0.push(b"0123456789abcdef"[(half >> (nibble % 16 * 4) & 15) as usize]);
        }
        self.0.push(b'"');
        self
    }

    pub(super) fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        write!(self.0, "{value}").expect("a vector takes every write");
        self
    }

    /// Milliseconds with three digits, from microseconds.
    pub(super) fn millis(&mut self, key: &str, micros: u64) -> &mut Self {
        self.key(key).bare_millis(micros);
        self
    }

    /// A list of milliseconds, from microseconds.
    pub(super) fn millis_list(&mut self, key: &str, micros: impl Iterator<Item = u64>) -> &mut Self {
        self.key(key).0.push(b'[');
        for value in micros {
            if self.0.last() != Some(&b'[') {
                self.0.push(b',');
            }
            self.bare_millis(value);
        }
        self.0.push(b']');
        self
    }

    /// Seconds with six digits, from microseconds.
    pub(super) fn seconds(&mut self, key: &str, micros: u64) -> &mut Self {
        self.key(key);
        write!(self.0, "{}.{:06}", micros / 1_000_000, micros % 1_000_000).expect("a vector takes every write");
        self
    }

    /// A value that is JSON already.
    pub(super) fn raw(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key).0.extend_from_slice(value.as_bytes());
        self
    }

    pub(super) fn audio(&mut self, key: &str, payloads: &Payloads, payload: Payload) -> &mut Self {
        self.key(key).0.push(b'"');
        payloads.write(payload, &mut self.0);
        self.0.push(b'"');
        self
    }

    pub(super) fn open(&mut self, key: &str) -> &mut Self {
        self.key(key).0.push(b'{');
        self
    }

    pub(super) fn close(&mut self) -> &mut Self {
        self.0.push(b'}');
        self
    }

    /// The event without its closing brace: what a replay repeats at another receive time.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.0
    }

    /// Takes up an event where [`unfinished`](Self::unfinished) left it.
    pub(super) fn resume(unfinished: Vec<u8>) -> Self {
        Self(unfinished)
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    fn bare_millis(&mut self, micros: u64) {
        write!(self.0, "{}.{:03}", micros / 1_000, micros % 1_000).expect("a vector takes every write");
    }

    fn escaped(&mut self, value: &str) {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if value.bytes().all(is_plain) {
            self.0.extend_from_slice(value.as_bytes());
            return;
        }
        for byte in value.bytes() {
            match byte {
                b'"' | b'\\' => self.0.extend_from_slice(&[b'\\', byte]),
                0..=0x1f => write!(self.0, "\\u{byte:04x}").expect("a vector takes every write"),
                _ => self.0.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_escapes_read_back() {
        let mut json = Json::event("x", 16);
        json.text("text", "a\"b\\c\n\u{1}…").open("in").number("n", 7).close().open("empty").close();
        json.hex("hex", "id_", [0x1234, 0xf]);
        json.millis("ms", 1_002).seconds("s", 12_000_034).millis_list("list", [5, 1_000].into_iter());
        let read: serde_json::Value = serde_json::from_slice(&json.finish()).unwrap();
        let expected = serde_json::json!({"type": "x", "text": "a\"b\\c\n\u{1}…", "in": {"n": 7}, "empty": {},
            "hex": "id_0000000000001234000000000000000f",
            "ms": 1.002, "s": 12.000_034, "list": [0.005, 1.0]});
        assert_eq!(read, expected);
    }
}
