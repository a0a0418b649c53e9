//! What must hold for any traffic: bundles do not depend on how records are batched into commits, nor on where a process
//! dies and the next one restores.

mod clocks;
mod decode;
mod records;
mod run_view;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use duplex_collector::collector::{Limits, Settings};
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::synth::{Event, Profile, Share, Tap, Traffic};
use duplex_collector::task::{ChangelogState, CommitBatch, CommittedOffset, PartitionTask, Record};
use duplex_collector::time::Timestamp;
use proptest::prelude::*;

const WALL: Timestamp = Timestamp(4_000_000_000_000);

fn source() -> TopicPartition {
    TopicPartition { topic: "duplex.events".into(), partition: Partition(0) }
}

fn traffic(seed: u64) -> Vec<Event> {
    // Without the client's side nothing says for certain when a stream starts, and facts are held back.
    let tap = if seed.is_multiple_of(2) { Tap::BothDirections } else { Tap::ServerEvents };
    let profile = Profile {
        seed,
        tap,
        sessions: 12,
        concurrency: 5,
        payload_bytes: Some(48),
        reconnects: Share::percent(40),
        abandoned: Share::percent(20),
        errors: Share::percent(60),
        slow: Share::percent(40),
        barge_ins: Share::percent(40),
        client_clock: Share::percent(70),
        ..Profile::default()
    };
    Traffic::new(profile).collect()
}

/// Hands a span of the partition to the task.
fn play(task: &mut PartitionTask, events: &[Event], span: std::ops::Range<usize>) {
    for (offset, event) in span.clone().zip(&events[span]) {
        process(task, event, offset);
    }
}

fn process(task: &mut PartitionTask, event: &Event, offset: usize) {
    let record = Record {
        partition: Partition(0),
        offset: Offset(offset as i64),
        timestamp: Some(event.at),
        key: Some(event.session.as_str().as_bytes()),
        value: Some(&event.value),
        headers: Vec::new(),
    };
    task.process(&record, WALL);
}

fn collect(bundles: &mut BTreeMap<String, Vec<u8>>, batch: &CommitBatch) {
    for bundle in &batch.bundles {
        let twice = bundles.insert(bundle.session_id.to_string(), bundle.json.clone());
        assert_eq!(twice, None, "{} has two bundles", bundle.session_id);
    }
}

/// Room for all, and for so little that sessions have to leave and metrics to be left out.
fn settings(is_tight: bool) -> Arc<Settings> {
    let tight = Limits { sessions: 3, state_bytes: 40 << 10, session_bytes: 16 << 10, ..Limits::default() };
    Arc::new(Settings { limits: if is_tight { tight } else { Limits::default() }, ..Settings::default() })
}

/// One process, one commit at the end.
fn undisturbed(events: &[Event], settings: &Arc<Settings>) -> BTreeMap<String, Vec<u8>> {
    let mut task = PartitionTask::new(source(), Offset(0), Arc::clone(settings));
    play(&mut task, events, 0..events.len());
    task.end_of_input();
    let mut bundles = BTreeMap::new();
    collect(&mut bundles, &task.prepare_commit().expect("effects"));
    bundles
}

/// Else the property below would say nothing of them.
#[test]
fn the_traffic_has_every_fact_that_a_bundle_tells_of_a_response() {
    let mut seen = BTreeMap::new();
    for bundle in undisturbed(&traffic(0), &settings(false)).values() {
        let bundle: serde_json::Value = serde_json::from_slice(bundle).expect("a bundle is JSON");
        for response in bundle["responses"].as_array().expect("a list") {
            for (key, value) in response.as_object().expect("an object") {
                *seen.entry(key.clone()).or_insert(0) += u32::from(!value.is_null() && value.as_f64() != Some(0.0));
            }
            *seen.entry(format!("by {}", response["ttft_source"])).or_insert(0) += 1;
        }
    }
    assert!(seen.len() > 15 && seen.values().all(|n| *n > 2), "{seen:?}");
}

#[test]
fn where_room_is_scarce_sessions_of_the_traffic_are_evicted_and_others_are_not() {
    let bundles = undisturbed(&traffic(0), &settings(true));
    let of_reason = |reason: &str| {
        let field = format!(r#""end_reason":"{reason}""#);
        bundles.values().filter(|bundle| String::from_utf8_lossy(bundle).contains(&field)).count()
    };
    assert!(of_reason("evicted") > 2 && of_reason("closed") > 2, "{} {}", of_reason("evicted"), of_reason("closed"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// `commits` says after which records a commit happens, `crashes` after which of those a new process takes over, and
    /// how many uncommitted records the old one had read by then.
    #[test]
    fn bundles_depend_neither_on_commits_nor_on_crashes(
        seed in 0u64..1000,
        is_tight: bool,
        steps in prop::collection::vec((1usize..80, prop::option::of(0usize..30)), 1..40),
    ) {
        let events = traffic(seed);
        let settings = settings(is_tight);
        let mut task = PartitionTask::new(source(), Offset(0), Arc::clone(&settings));
        // The changelog as compaction leaves it: the last value of each key.
        let mut changelog: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut bundles = BTreeMap::new();
        let mut at = 0;
        let mut steps = steps.into_iter().cycle();
        while at < events.len() {
            let (records, crash) = steps.next().expect("a cycle");
            let end = (at + records).min(events.len());
            play(&mut task, &events, at..end);
            at = end;
            let batch = task.prepare_commit().expect("records were read");
            collect(&mut bundles, &batch);
            for entry in batch.changelog {
                match entry.value {
                    Some(value) => drop(changelog.insert(entry.key, value)),
                    None => drop(changelog.remove(&entry.key)),
                }
            }
            if let Some(uncommitted) = crash {
                play(&mut task, &events, at..(at + uncommitted).min(events.len()));
                let mut state = ChangelogState::default();
                for (key, value) in &changelog {
                    state.apply(key, Some(value)).expect("our own changelog");
                }
                let committed = CommittedOffset { offset: Some(batch.next_offset), has_state: true };
                prop_assert_eq!(state.check_exactly_once(committed), Ok(()));
                task = PartitionTask::restore(source(), batch.next_offset, state, Arc::clone(&settings))
                    .expect("our own changelog");
            }
        }
        task.end_of_input();
        if let Some(batch) = task.prepare_commit() {
            collect(&mut bundles, &batch);
        }
        prop_assert_eq!(bundles, undisturbed(&events, &settings));
    }
}
