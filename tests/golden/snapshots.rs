//! Rolling upgrades: the changelog that every release left behind, kept as a file, restores in this one.
//!
//! `snapshots.vN.jsonl` is the changelog of the first half of `sessions.jsonl` in snapshot version N, one entry a line,
//! bytes in hexadecimal. A change of the layout raises `SNAPSHOT_VERSION` and adds a file; none is ever changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;

use duplex_collector::collector::{SNAPSHOT_VERSION, Settings};
use duplex_collector::ids::Offset;
use duplex_collector::task::{ChangelogState, CommitBatch, PartitionTask};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{WALL, bundles, records, replay, source, vector};

const CAPTURE: &str = "sessions.jsonl";
/// Records read before the release is replaced: some sessions are open here and others have ended.
const FIRST: usize = 1_700;

/// Records between two processes of this release.
const RESTART_EVERY: usize = 150;

#[derive(Serialize, Deserialize)]
struct Entry {
    key: String,
    value: String,
}

/// The first version that has playback, ends of responses and the onset of speech.
const KNOWS_PLAYBACK: u8 = 4;

/// The commit of the old release and the changelog after it, compacted.
fn first_half() -> (CommitBatch, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut task = PartitionTask::new(source(), Offset(0), Arc::new(Settings::default()));
    for record in records(CAPTURE).iter().take(FIRST) {
        task.process(&record.as_record(), WALL);
    }
    let batch = task.prepare_commit().expect("records were read");
    let mut changelog = BTreeMap::new();
    for entry in &batch.changelog {
        match &entry.value {
            Some(value) => drop(changelog.insert(entry.key.clone(), value.clone())),
            None => drop(changelog.remove(&entry.key)),
        }
    }
    (batch, changelog)
}

fn file(version: u8) -> String {
    format!("snapshots.v{version}.jsonl")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digits).collect()
}

#[test]
fn this_release_writes_what_is_kept_of_its_version() {
    let (_, changelog) = first_half();
    let lines = changelog.iter().map(|(key, value)| {
        serde_json::to_string(&Entry { key: hex(key), value: hex(value) }).expect("an entry is JSON") + "\n"
    });
    let written: String = lines.collect();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file(SNAPSHOT_VERSION));
    if std::fs::read_to_string(&kept).ok().as_deref() != Some(&written) {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file(SNAPSHOT_VERSION));
        std::fs::write(&new, written).expect("the new file can be written");
        panic!(
            "snapshots are not those of {}: a changed layout needs a new SNAPSHOT_VERSION, a decoder for the last one, \
             and {} kept beside it",
            kept.display(),
            new.display()
        );
    }
}

#[test]
fn the_snapshots_of_every_version_restore_and_their_sessions_end_with_the_references_numbers() {
    for version in 1..=SNAPSHOT_VERSION {
        let (mut state, mut kept) = (ChangelogState::default(), BTreeMap::new());
        for line in vector(&file(version)).lines() {
            let entry: Entry = serde_json::from_str(&line.expect("a line")).expect("an entry");
            let (key, value) = (bytes(&entry.key), bytes(&entry.value));
            state.apply(&key, Some(&value)).expect("a snapshot of an earlier release");
            kept.insert(key, value);
        }
        let (before, _) = first_half();
        let settings = Arc::new(Settings::default());
        let mut task = PartitionTask::restore(source(), before.next_offset, state, settings).expect("restores");
        assert!(task.open_sessions() > 3, "version {version}: {} sessions are open", task.open_sessions());
        // The next process of this release goes on from what this one wrote.
        let (mut log, mut bundles_between) = (kept, Vec::new());
        for (record, n) in records(CAPTURE).iter().skip(FIRST).zip(1..) {
            task.process(&record.as_record(), WALL);
            if n % RESTART_EVERY == 0 {
                let batch = task.prepare_commit().expect("records were read");
                bundles_between.extend(batch.bundles);
                for entry in batch.changelog {
                    match entry.value {
                        Some(value) => drop(log.insert(entry.key, value)),
                        None => drop(log.remove(&entry.key)),
                    }
                }
                let mut state = ChangelogState::default();
                log.iter().for_each(|(key, value)| state.apply(key, Some(value)).expect("our own entry"));
                let settings = Arc::new(Settings::default());
                task = PartitionTask::restore(source(), batch.next_offset, state, settings).expect("restores");
            }
        }
        task.end_of_input();
        // What was open then may be over by the time of this release.
        let mut after = bundles_between;
        after.extend(task.prepare_commit().expect("records were read").bundles);
        let mut both = before;
        both.bundles.retain(|bundle| after.iter().all(|after| after.session_id != bundle.session_id));
        both.bundles.extend(after);
        let (ours, mut expected) = (bundles(&both), bundles(&replay(CAPTURE)));
        if version < KNOWS_PLAYBACK {
            let mut forgotten = 0;
            for (id, expected) in &mut expected {
                forgotten += forget_what_is_null(&ours[id], expected);
            }
            assert!(forgotten > 0, "version {version} knew everything");
        }
        assert_eq!(ours, expected, "version {version}");
    }
}

/// What earlier releases did not collect may be null, and must not be wrong. Returns how much was null.
fn forget_what_is_null(ours: &Value, expected: &mut Value) -> usize {
    let mut forgotten = 0;
    let mut forget = |ours: &Value, expected: &mut Value, keys: &[&str]| {
        for key in keys {
            if ours[key].is_null() && !expected[key].is_null() {
                expected[key] = Value::Null;
                forgotten += 1;
            }
        }
    };
    forget(&ours["session"], &mut expected["session"], &["duration_ms"]);
    let responses = expected["responses"].as_array_mut().expect("a list");
    for (ours, expected) in ours["responses"].as_array().expect("a list").iter().zip(responses) {
        let keys = ["ended_ms", "max_audio_gap_ms", "underruns", "underrun_ms", "speech_to_cancel_ms"];
        forget(ours, expected, &keys);
    }
    forgotten
}
