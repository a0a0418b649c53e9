//! Audio payloads: slices of one block of random base64, so that a packet costs a copy and no encoding.

use super::random::Random;

/// Base64 characters in the block: four seconds of PCM16 at 24 kHz. A longer packet wraps around.
const BLOCK_CHARS: usize = 1 << 18;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The block every packet is cut from.
#[derive(Debug)]
pub(super) struct Payloads(Vec<u8>);

/// One packet's audio: where it starts in the block, and how many bytes it decodes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Payload {
    from: usize,
    bytes: usize,
}

impl Payload {
    pub(super) fn draw(random: &mut Random, bytes: usize) -> Self {
        Self { from: random.between(0, BLOCK_CHARS as u64 - 1) as usize, bytes }
    }

    /// Characters with their padding.
    pub(super) fn chars(self) -> usize {
        self.bytes.div_ceil(3) * 4
    }
}

impl Payloads {
    pub(super) fn new(random: &mut Random) -> Self {
        let mut block = Vec::with_capacity(BLOCK_CHARS);
        while block.len() < BLOCK_CHARS {
            let mut bits = random.bits();
            // Ten characters of six bits each from one draw.
            for _ in 0..10.min(BLOCK_CHARS - block.len()) {
                block.push(ALPHABET[(bits & 63) as usize]);
                bits >>= 6;
            }
        }
        Self(block)
    }

    /// Appends the payload's base64, canonical and padded.
    pub(super) fn write(&self, payload: Payload, out: &mut Vec<u8>) {
        let (mut from, mut left) = (payload.from, payload.bytes / 3 * 4);
        while left > 0 {
            let taken = left.min(self.0.len() - from);
            out.extend_from_slice(&self.0[from..from + taken]);
            left -= taken;
            from = 0;
        }
        // The last character before the padding has its unused bits at zero.
        out.extend_from_slice(match payload.bytes % 3 {
            0 => b"",
            1 => b"QQ==",
            _ => b"QUE=",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_any_size_is_padded_base64_of_that_size() {
        let mut random = Random::new(1, 0);
        let payloads = Payloads::new(&mut random);
        for bytes in [0, 1, 2, 3, 4, 5, 9_600, 9_601, 48_000, 800_000] {
            let payload = Payload::draw(&mut random, bytes);
            let mut out = Vec::new();
            payloads.write(payload, &mut out);
            let pads = out.iter().rev().take_while(|&&c| c == b'=').count();
            let data = &out[..out.len() - pads];
            assert!(data.iter().all(|c| ALPHABET.contains(c)));
            assert_eq!((out.len(), out.len() % 4), (payload.chars(), 0));
            assert_eq!(out.len() / 4 * 3 - pads, bytes);
        }
    }
}
