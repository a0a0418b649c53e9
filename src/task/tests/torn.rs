//! State without transactions: a crash can leave any first part of a commit's changelog on the broker.

use std::collections::BTreeSet;

use super::*;

const STREAM_START: &str = r#"{"type":"collector.stream_start"}"#;
const R1: &str = r#"{"type":"response.created","response_id":"r1"}"#;
const R2: &str = r#"{"type":"response.created","response_id":"r2"}"#;
const R2_AUDIO: &str = r#"{"type":"response.output_audio.delta","response_id":"r2","delta":"AAAA"}"#;

/// Sessions with responses, with facts that wait for the stream start and with such that no longer do; one has ended.
const COMMITTED: [(&str, &str); 9] = [
    ("long", CREATED),
    ("long", STREAM_START),
    ("long", R1),
    ("waiting", R1),
    ("settles", R1),
    ("ends", R1),
    ("again", CREATED),
    ("again", CLOSED),
    ("ends", CLOSED),
];

/// And what each goes through next, at a later time, at which the closed ones are over.
const NEXT: [(&str, &str); 9] = [
    ("long", R2),
    ("long", R2_AUDIO),
    ("waiting", R2),
    ("waiting", R2_AUDIO),
    ("settles", STREAM_START),
    ("settles", R2),
    ("again", CREATED),
    ("again", R1),
    ("opens", R1),
];

fn play(bench: &mut Bench, at: f64, events: &[(&str, &str)]) {
    bench.at(at);
    for (session, event) in events {
        bench.event(session, event);
    }
}

#[test]
fn whatever_part_of_a_commit_a_crash_left_restores_and_loses_no_session() {
    let mut committed = Bench::new();
    play(&mut committed, 0.0, &COMMITTED);
    let before = committed.commit();
    let mut next = Bench::new();
    play(&mut next, 0.0, &COMMITTED);
    next.commit();
    play(&mut next, 5.0, &NEXT);
    let batch = next.task.prepare_commit().expect("records were read");
    assert!(batch.changelog.len() > 12, "{} entries to cut between", batch.changelog.len());
    for cut in 0..=batch.changelog.len() {
        let mut state = ChangelogState::default();
        for entry in before.changelog.iter().chain(&batch.changelog[..cut]) {
            state.apply(&entry.key, entry.value.as_deref()).expect("our own entry");
        }
        let offset = CommittedOffset { offset: Some(before.next_offset), has_state: true };
        assert_eq!(state.check_at_least_once(offset), Ok(()), "cut at {cut}");
        let mut bench = Bench::new();
        bench.task = PartitionTask::restore(source(), before.next_offset, state, Arc::default())
            .unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        bench.offset = before.next_offset.0;
        play(&mut bench, 5.0, &NEXT);
        bench.task.end_of_input();
        // The output of a batch is written before its state.
        let bundles = batch.bundles.iter().chain(&bench.commit().bundles).map(|b| b.session_id.to_string()).collect();
        let expected = ["again", "ends", "long", "opens", "settles", "waiting"].map(str::to_owned);
        assert_eq!(BTreeSet::from(expected), bundles, "cut at {cut}");
        // And what it writes can be read.
        bench.restart(Settings::default());
    }
}
