//! One session's clock is wrong, however it is: the others' bundles are those without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duplex_collector::collector::Settings;
use duplex_collector::ids::Offset;
use duplex_collector::synth::{Event, Profile, Share, Traffic};
use duplex_collector::task::{ChangelogState, CommitBatch, PartitionTask, Record};
use duplex_collector::time::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use crate::{WALL, source};

/// What the wrong clock says where the right one says that so many milliseconds have passed since the first event.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Off(i64),
    Fast(i64),
    Stands,
    Anything(i64),
}

fn wrong() -> impl Strategy<Value = Wrong> {
    let off = prop_oneof![-200_000_i64..200_000, -200_000_000_i64..200_000_000];
    prop_oneof![
        3 => off.prop_map(Wrong::Off),
        2 => (2_i64..100).prop_map(Wrong::Fast),
        1 => Just(Wrong::Stands),
        1 => any::<i64>().prop_map(Wrong::Anything),
    ]
}

/// Each of its events: before which of the others' it comes, what its clock says, and what it is.
fn wrongs() -> impl Strategy<Value = Vec<(prop::sample::Index, Wrong, &'static str)>> {
    let kind = prop::sample::select(vec!["session.created", "response.speak", "response.speak", "session.closed"]);
    // Now one clock for all of its events, now another for each.
    let steady = (wrong(), prop::collection::vec((any::<prop::sample::Index>(), kind.clone()), 1..40))
        .prop_map(|(wrong, events)| events.into_iter().map(|(at, kind)| (at, wrong, kind)).collect());
    let jumping = prop::collection::vec((any::<prop::sample::Index>(), wrong(), kind), 1..40);
    prop_oneof![steady, jumping]
}

fn settings() -> Arc<Settings> {
    // One session may bring the time a minute on, so what comes within a second of an end may come late.
    Arc::new(Settings { grace: Duration::from_secs(120), ..Settings::default() })
}

/// The bundles of the honest sessions; `commits` says after how many records a new process takes over.
fn bundles(
    events: &[Event],
    wrongs: &[(prop::sample::Index, Wrong, &'static str)],
    commits: Option<usize>,
) -> BTreeMap<String, Value> {
    let mut before: BTreeMap<usize, Vec<(Timestamp, String)>> = BTreeMap::new();
    let begin = events[0].at.0;
    for (index, wrong, kind) in wrongs {
        let at = index.index(events.len());
        let passed = events[at].at.0 - begin;
        let stamp = match wrong {
            Wrong::Off(by) => begin + passed + by,
            Wrong::Fast(times) => begin + passed * times,
            Wrong::Stands => begin,
            Wrong::Anything(at) => *at,
        };
        before.entry(at).or_default().push((Timestamp(stamp), format!(r#"{{"type":"{kind}"}}"#)));
    }
    let mut task = PartitionTask::new(source(), Offset(0), settings());
    let (mut bundles, mut offset) = (BTreeMap::new(), 0);
    let mut collect = |batch: CommitBatch| {
        for bundle in batch.bundles.iter().filter(|bundle| bundle.session_id.as_str() != "wrong") {
            let mut json: Value = serde_json::from_slice(&bundle.json).expect("a bundle is JSON");
            json["source"] = Value::Null;
            // Of those without an end of their own: a capture's end believes whoever is ahead.
            if ["idle_timeout", "end_of_input"].contains(&json["session"]["end_reason"].as_str().expect("a reason")) {
                json["session"]["end_reason"] = Value::Null;
            }
            let twice = bundles.insert(bundle.session_id.to_string(), json);
            assert_eq!(twice, None, "{} has two bundles", bundle.session_id);
        }
    };
    let mut process = |task: &mut PartitionTask, session: &str, at, value: &[u8]| {
        let (key, timestamp) = (Some(session.as_bytes()), Some(at));
        let (partition, value, headers) = (source().partition, Some(value), Vec::new());
        task.process(&Record { partition, offset: Offset(offset), timestamp, key, value, headers }, WALL);
        offset += 1;
    };
    // The changelog that the next process restores.
    let mut log = Vec::new();
    for (nth, event) in events.iter().enumerate() {
        for (at, value) in before.get(&nth).into_iter().flatten() {
            process(&mut task, "wrong", *at, value.as_bytes());
        }
        process(&mut task, event.session.as_str(), event.at, &event.value);
        if commits.is_some_and(|commits| nth % commits == 0) {
            let batch = task.prepare_commit().expect("records were read");
            log.extend_from_slice(&batch.changelog);
            let next_offset = batch.next_offset;
            collect(batch);
            let mut restored = ChangelogState::default();
            for entry in &log {
                restored.apply(&entry.key, entry.value.as_deref()).expect("our own changelog");
            }
            task = PartitionTask::restore(source(), next_offset, restored, settings()).expect("our own changelog");
        }
    }
    task.end_of_input();
    task.prepare_commit().into_iter().for_each(collect);
    bundles
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_wrong_clock_changes_nobody_else_s_bundle(
        seed in 0_u64..1000,
        concurrency in 1_usize..8,
        wrongs in wrongs(),
        commits in prop::option::of(40_usize..400),
    ) {
        let profile = Profile {
            seed,
            sessions: 8,
            concurrency,
            payload_bytes: Some(48),
            reconnects: Share::percent(40),
            abandoned: Share::percent(20),
            ..Profile::default()
        };
        let events: Vec<_> = Traffic::new(profile).collect();
        prop_assert_eq!(bundles(&events, &wrongs, commits), bundles(&events, &[], None));
    }
}
