//! Kafka's own protocol, as far as it takes to write what no client library would: header names of any bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A record without a key's, a value's or a name's text.
pub struct RawRecord {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Writes records to a partition as one batch, and waits until the broker has it.
///
/// # Panics
/// When the broker refuses it.
pub fn produce(bootstrap: &str, topic: &str, partition: i32, timestamp_ms: i64, records: &[RawRecord]) {
    let batch = batch(timestamp_ms, records);
    let mut request = Vec::new();
    // Produce, version 7, correlation id, client id; no transactional id, acks of all, timeout.
    request.extend([0_i16, 7].map(i16::to_be_bytes).concat());
    request.extend(1_i32.to_be_bytes());
    string(&mut request, "raw");
    request.extend((-1_i16).to_be_bytes());
    request.extend((-1_i16).to_be_bytes());
    request.extend(30_000_i32.to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    string(&mut request, topic);
    request.extend([1, partition, batch.len() as i32].map(i32::to_be_bytes).concat());
    request.extend(batch);

    let mut stream = TcpStream::connect(bootstrap).expect("a broker");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream.write_all(&(request.len() as i32).to_be_bytes()).expect("written");
    stream.write_all(&request).expect("written");
    let mut len = [0; 4];
    stream.read_exact(&mut len).expect("an answer");
    let mut answer = vec![0; i32::from_be_bytes(len) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    // Correlation id, one topic with its name, one partition with its number; then the error.
    let error = 4 + 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[error..error + 2], [0, 0], "the broker refuses the batch: {answer:?}");
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn batch(timestamp_ms: i64, records: &[RawRecord]) -> Vec<u8> {
    // Attributes, last offset, first and last timestamp, no producer id, epoch and sequence, count.
    let mut body = 0_i16.to_be_bytes().to_vec();
    body.extend((records.len() as i32 - 1).to_be_bytes());
    body.extend([timestamp_ms, timestamp_ms, -1].map(i64::to_be_bytes).concat());
    body.extend((-1_i16).to_be_bytes());
    body.extend([-1, records.len() as i32].map(i32::to_be_bytes).concat());
    for (record, offset) in records.iter().zip(0..) {
        let mut one = vec![0, 0];
        varint(&mut one, offset);
        bytes(&mut one, &record.key);
        bytes(&mut one, &record.value);
        varint(&mut one, record.headers.len() as i64);
        for (name, value) in &record.headers {
            bytes(&mut one, name);
            bytes(&mut one, value);
        }
        bytes(&mut body, &one);
    }
    let mut batch = 0_i64.to_be_bytes().to_vec();
    // Of what follows: leader epoch, magic, checksum and body.
    batch.extend((4 + 1 + 4 + body.len() as i32).to_be_bytes());
    batch.extend((-1_i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c(&body).to_be_bytes());
    batch.extend(body);
    batch
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as i64);
    out.extend(bytes);
}

/// In zigzag, seven bits a byte.
fn varint(out: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
