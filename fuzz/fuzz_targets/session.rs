//! Any sequence of events: the same bundles, whether the task lives through it or is restored in between.
//!
//! One record a line. Its first byte says how much later it comes, whether the next of two sessions has it, and whether a
//! commit and a restore follow.

#![no_main]

use std::collections::BTreeMap;
use std::sync::Arc;

use duplex_collector::collector::{Limits, Settings};
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::task::{ChangelogState, PartitionTask, Record};
use duplex_collector::time::Timestamp;
use libfuzzer_sys::fuzz_target;

const WALL: Timestamp = Timestamp(4_000_000_000_000);

fn source() -> TopicPartition {
    TopicPartition { topic: "events".into(), partition: Partition(0) }
}

/// Room for all, and for one session at a time that may not hold much.
fn settings() -> [Arc<Settings>; 2] {
    let tight = Limits { sessions: 1, state_bytes: 8 << 10, session_bytes: 4 << 10, ..Limits::default() };
    [Limits::default(), tight].map(|limits| Arc::new(Settings { limits, ..Settings::default() }))
}

/// The bundles; with `restores`, each commit is followed by one.
fn bundles(input: &[u8], settings: &Arc<Settings>, restores: bool) -> Vec<Vec<u8>> {
    let mut task = PartitionTask::new(source(), Offset(0), Arc::clone(settings));
    let (mut bundles, mut changelog) = (Vec::new(), BTreeMap::new());
    let mut at = Timestamp(1_700_000_000_000);
    for (line, offset) in input.split(|byte| *byte == b'\n').zip(0..) {
        let Some((how, value)) = line.split_first() else { continue };
        at = Timestamp(at.0 + i64::from(*how & 0x1f) * i64::from(*how & 0x1f) * 50);
        task.process(
            &Record {
                partition: Partition(0),
                offset: Offset(offset),
                timestamp: Some(at),
                key: Some(if how & 0x20 == 0 { b"a" } else { b"b" }),
                value: Some(value),
                headers: Vec::new(),
            },
            WALL,
        );
        if how & 0x40 == 0 {
            continue;
        }
        let Some(batch) = task.prepare_commit() else { continue };
        bundles.extend(batch.bundles.into_iter().map(|bundle| bundle.json));
        if restores {
            for entry in batch.changelog {
                match entry.value {
                    Some(value) => drop(changelog.insert(entry.key, value)),
                    None => drop(changelog.remove(&entry.key)),
                }
            }
            let mut state = ChangelogState::default();
            for (key, value) in &changelog {
                state.apply(key, Some(value)).expect("the task's own changelog");
            }
            task = PartitionTask::restore(source(), batch.next_offset, state, Arc::clone(settings))
                .expect("the task's own changelog");
        }
    }
    task.end_of_input();
    if let Some(batch) = task.prepare_commit() {
        bundles.extend(batch.bundles.into_iter().map(|bundle| bundle.json));
    }
    bundles.sort();
    bundles
}

fuzz_target!(|input: &[u8]| {
    for settings in settings() {
        let undisturbed = bundles(input, &settings, false);
        assert_eq!(bundles(input, &settings, true), undisturbed);
        for bundle in undisturbed {
            serde_json::from_slice::<serde_json::Value>(&bundle).expect("a bundle is JSON");
        }
    }
});
