//! One session's clock is wrong: it harms itself at most (contract.md section 7).

use super::*;

const AUDIO: &str = r#"{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA"}"#;
const RESPONSE: &str = r#"{"type":"response.created","response_id":"r"}"#;

fn bundle(batch: &CommitBatch, id: &str) -> Value {
    json(batch.bundles.iter().find(|bundle| bundle.session_id.as_str() == id).expect("its bundle"))
}

/// End reason, events and late events of a bundle's session.
fn life(bundle: &Value) -> (String, u64, u64) {
    let session = &bundle["session"];
    let count = |field: &str| session[field].as_u64().expect("a count");
    (session["end_reason"].as_str().expect("a reason").to_owned(), count("events"), count("late_events"))
}

#[test]
fn a_session_an_hour_ahead_in_a_backlog_ends_nobody_else_s_and_takes_the_time_nowhere_even_as_the_first() {
    for wrong in [3_600.0, 86_400.0, -3_600.0] {
        for first in [true, false] {
            let mut bench = Bench::new();
            if first {
                bench.at(wrong).event("wrong", CREATED);
            }
            bench.at(0.0).event("victim", CREATED).at(1.0).event("victim", RESPONSE);
            bench.at(wrong).event("wrong", SPEAK).at(1.5).event("victim", AUDIO);
            bench.at(wrong + 1.0).event("wrong", SPEAK).at(2.0).event("other", CREATED).at(2.5).event("victim", CLOSED);
            bench.at(4.0).event("other", CLOSED).event("wrong", CLOSED);
            let batch = bench.commit();
            let of_others = ends(&batch).into_iter().filter(|(id, _)| id != "wrong");
            assert_eq!(of_others.collect::<Vec<_>>(), [("victim".into(), EndReason::Closed)], "{wrong} {first}");
            assert_eq!(life(&bundle(&batch, "victim")), ("closed".into(), 4, 0));
            bench.task.end_of_input();
            assert_eq!(life(&bundle(&bench.commit(), "other")), ("closed".into(), 2, 0));
        }
    }
}

#[test]
fn a_clock_that_runs_fast_ends_nobody_else_s_session_by_many_small_steps() {
    let mut bench = Bench::new();
    bench.at(0.0).event("victim", CREATED).event("other", CREATED);
    for step in 0..100 {
        bench.at(f64::from(step) * 50.0).event("fast", SPEAK);
    }
    bench.at(1.0).event("victim", SPEAK).at(1.0).event("victim", CLOSED);
    assert_eq!(ends(&bench.commit()), []);
    bench.task.end_of_input();
    assert_eq!(life(&bundle(&bench.commit(), "victim")), ("closed".into(), 3, 0));
}

#[test]
fn a_timestamp_too_far_past_the_wall_clock_moves_nothing_and_is_counted() {
    let mut bench = Bench::new();
    bench.now = WALL.0 - 1000;
    bench.event("a", CREATED).event("b", CREATED);
    for ahead in [10_000, 10_001, 3_600_000, i64::MAX - WALL.0] {
        bench.now = WALL.0 + ahead;
        bench.event("fast", SPEAK).event("faster", SPEAK);
    }
    let batch = bench.commit();
    assert_eq!((&batch.bundles[..], bench.task.open_sessions()), (&[][..], 4));
    let by = Duration::from_millis(u64::try_from(i64::MAX - WALL.0).expect("to come"));
    assert_eq!((batch.counts.timestamps_ahead, batch.furthest_ahead), (6, Some(Ahead { by, offset: Offset(9) })));
    // Not by its own either, and its events count as any other.
    bench.now = WALL.0;
    bench.event("fast", CLOSED).silence(600).task.end_of_input();
    let batch = bench.commit();
    assert_eq!((life(&bundle(&batch, "fast")), batch.furthest_ahead), (("closed".into(), 5, 0), None));
}

#[test]
fn a_backlog_with_gaps_ends_those_that_fell_silent_and_none_of_those_that_go_on() {
    let mut bench = Bench::new();
    bench.at(0.0).event("silent", CREATED).event("closed", CREATED).at(1.0).event("closed", CLOSED);
    let night = 30_000.0;
    bench.at(night).event("first", CREATED).at(night + 1.0).event("first", SPEAK);
    assert_eq!(ends(&bench.commit()), [], "a single session says so");
    bench.at(night + 2.0).event("second", CREATED);
    assert_eq!(
        ends(&bench.commit()),
        [("closed".into(), EndReason::Closed), ("silent".into(), EndReason::IdleTimeout)]
    );
    bench.at(night + 3.0).event("first", CLOSED).event("second", CLOSED).at(night + 5.0).event("third", CREATED);
    assert_eq!(ends(&bench.commit()), [("first".into(), EndReason::Closed), ("second".into(), EndReason::Closed)]);
}

#[test]
fn a_session_s_silence_is_measured_from_its_own_timestamps_too() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("b", CREATED);
    bench.at(359.0).event("a", SPEAK).at(718.0).event("a", SPEAK).at(1_078.0).event("a", SPEAK);
    let batch = bench.commit();
    assert_eq!(ends(&batch), [("a".into(), EndReason::IdleTimeout)]);
    assert_eq!(batch.counts.events[&(EventClass::Response, Outcome::Late)], 1);
}

#[test]
fn a_straggler_long_after_its_end_is_late_whatever_the_partition_s_time() {
    for after in [1.0, 30.0, 300.0, 30_000.0] {
        let mut bench = Bench::new();
        bench.at(0.0).event("a", CREATED).event("other", CREATED).event("a", CLOSED).at(after).event("a", SPEAK);
        let batch = bench.commit();
        assert_eq!(life(&bundle(&batch, "a")), ("closed".into(), 2, 0), "{after}");
        assert_eq!(batch.counts.events[&(EventClass::Response, Outcome::Late)], 1);
    }
}

#[test]
fn a_clock_that_is_behind_ends_nothing_as_long_as_its_session_talks() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("b", CREATED);
    for minute in 1..60 {
        bench.at(f64::from(minute) * 60.0).event("a", SPEAK).event("b", SPEAK);
        bench.at(f64::from(minute) - 9_000.0).event("slow", SPEAK);
    }
    bench.event("slow", CLOSED);
    assert_eq!(ends(&bench.commit()), []);
    bench.at(59.0 * 60.0 + 1.0).event("a", SPEAK);
    assert_eq!(life(&bundle(&bench.commit(), "slow")), ("closed".into(), 60, 0));
}

#[test]
fn what_is_of_no_session_moves_no_time() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("b", CREATED);
    for _ in 0..2 {
        bench.at(1_000.0).record(None, Some(b"{}"), Vec::new()).record(Some(b"c"), Some(b"nonsense"), Vec::new());
        bench.record(Some(b"d"), None, Vec::new());
    }
    assert_eq!(bench.commit().bundles, []);
}

#[test]
fn a_restart_while_a_step_waits_decides_the_same() {
    let play = |restarts: bool| {
        let mut bench = Bench::new();
        let mut ended = Vec::new();
        let told = [
            (5_000.0, "x"),
            (0.0, "a"),
            (1.0, "b"),
            (900.0, "c"),
            (50.0, "b"),
            (2_000.0, "d"),
            (905.0, "e"),
            (910.0, "a"),
        ];
        for (at, session) in told {
            bench.at(at).event(session, SPEAK);
            ended.push(ends(&bench.commit()));
            if restarts {
                bench.restart(Settings::default());
            }
        }
        ended
    };
    let ended = play(false);
    assert_eq!(ended.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 2, 0, 1, 0, 0], "{ended:?}");
    assert_eq!(play(true), ended);
}

#[test]
fn at_the_end_of_a_capture_the_longest_step_is_believed() {
    let mut bench = Bench::new();
    bench.at(0.0).event("silent", CREATED).event("other", CREATED).at(400.0).event("talks", SPEAK);
    bench.task.end_of_input();
    let expected =
        [("other", EndReason::IdleTimeout), ("silent", EndReason::IdleTimeout), ("talks", EndReason::EndOfInput)];
    assert_eq!(ends(&bench.commit()), expected.map(|(id, reason)| (id.to_owned(), reason)));
}
