//! Whole records of any bytes: key, headers, timestamp, value. Nothing panics, each counts once, bundles are JSON in
//! whatever parts.
//!
//! A record is: a byte that says which of the four it has, how many headers, and whether a commit follows; then eight bytes of
//! timestamp, and each of the others behind a byte of its length.

#![no_main]

use std::sync::Arc;

use duplex_collector::collector::Settings;
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::report::Parts;
use duplex_collector::task::{CommitBatch, Counts, Header, PartitionTask, Record};
use duplex_collector::time::Timestamp;
use libfuzzer_sys::fuzz_target;

const WALL: Timestamp = Timestamp(1_800_000_000_000);
const NAMES: [&str; 6] = ["received_at_s", "run_id", "model", "split", "sample_id", ""];

/// What is left of the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn short(&mut self) -> &'a [u8] {
        let len = self.byte();
        self.bytes(len.into())
    }

    fn long(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()) << 3;
        self.bytes(len)
    }

    fn header(&mut self) -> Header<'a> {
        let which = self.byte();
        let name = match NAMES.get(usize::from(which & 0x7f)) {
            Some(name) => name,
            None => str::from_utf8(self.short()).unwrap_or("x"),
        };
        Header { name, value: (which & 0x80 == 0).then(|| self.short()) }
    }
}

fn check(batch: Option<CommitBatch>, counts: &mut Counts) {
    let Some(batch) = batch else { return };
    counts.merge(&batch.counts);
    for bundle in &batch.bundles {
        let (mut parts, mut whole) = (Parts::default(), None);
        for record in bundle.records(700) {
            serde_json::from_slice::<serde_json::Value>(&record).expect("a part is JSON");
            whole = parts.take(b"k", &record).map(|whole| whole.into_owned());
        }
        assert_eq!(whole.as_ref(), Some(&bundle.json));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let source = TopicPartition { topic: "events".into(), partition: Partition(0) };
    let mut task = PartitionTask::new(source, Offset(0), Arc::new(Settings::default()));
    let (mut counts, mut records) = (Counts::default(), 0);
    while !input.0.is_empty() {
        let has = input.byte();
        let timestamp = (has & 1 != 0).then(|| {
            let mut eight = [0; 8];
            let given = input.bytes(8);
            eight[..given.len()].copy_from_slice(given);
            Timestamp(i64::from_be_bytes(eight))
        });
        let key = (has & 2 != 0).then(|| input.short());
        let headers = (0..has >> 4 & 7).map(|_| input.header()).collect();
        let value = (has & 4 != 0).then(|| input.long());
        task.process(
            &Record { partition: Partition(0), offset: Offset(records), timestamp, key, value, headers },
            WALL,
        );
        records += 1;
        if has & 8 != 0 {
            check(task.prepare_commit(), &mut counts);
        }
    }
    task.end_of_input();
    check(task.prepare_commit(), &mut counts);
    let events: u64 = counts.events.values().sum();
    let letters: u64 = counts.dead_letters.values().sum();
    assert_eq!(counts.records, records as u64);
    assert_eq!(events + letters + counts.tombstones, counts.records);
});
