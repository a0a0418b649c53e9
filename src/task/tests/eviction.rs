//! Who makes room when there is no more, and that nobody else feels it.

use super::*;

fn within(limits: Limits) -> Settings {
    Settings { limits, ..Settings::default() }
}

fn sessions(sessions: usize) -> Bench {
    Bench::with(within(Limits { sessions, ..Limits::default() }))
}

impl Bench {
    fn speak(&mut self, session: &str) {
        self.event(session, SPEAK);
    }
}

fn created(response: usize) -> String {
    format!(r#"{{"type":"response.created","response_id":"r{response}"}}"#)
}

fn bundle_of(batch: &CommitBatch, id: &str) -> Value {
    json(batch.bundles.iter().find(|bundle| bundle.session_id.as_str() == id).expect("its bundle"))
}

#[test]
fn of_equals_the_one_silent_for_longest_makes_room() {
    let mut bench = sessions(2);
    bench.event("a", CREATED).event("b", CREATED).event("c", CREATED);
    let batch = bench.commit();
    assert_eq!(ends(&batch), [("a".into(), EndReason::Evicted)]);
    assert_eq!((batch.counts.truncated, &bundle_of(&batch, "a")["session"]["truncated"]), (1, &true.into()));
    // Its marker is like any other's.
    bench.event("a", SPEAK);
    assert_eq!(bench.commit().counts.events[&(EventClass::Response, Outcome::Late)], 1);
}

#[test]
fn who_said_two_things_may_be_silent_eight_times_as_long_as_who_said_one() {
    // `talks` is silent for `longer` records more than `silent` when `new` comes.
    let play = |longer: usize, silence: usize| {
        let mut bench = sessions(3);
        bench.event("x", SPEAK).event("x", SPEAK).event("x", SPEAK).event("x", SPEAK);
        bench.event("talks", CREATED).event("talks", SPEAK);
        (0..longer).for_each(|_| bench.speak("x"));
        bench.event("silent", CREATED);
        (0..silence).for_each(|_| bench.speak("x"));
        bench.event("new", CREATED);
        ends(&bench.commit())
    };
    // `silent` is so for 4 offsets at the end, `talks` for 4 and `longer` and one.
    assert_eq!(play(26, 3), [("silent".into(), EndReason::Evicted)]);
    assert_eq!(play(28, 3), [("talks".into(), EndReason::Evicted)]);
    assert_eq!(play(0, 50), [("silent".into(), EndReason::Evicted)]);
}

#[test]
fn a_session_does_not_leave_with_its_own_event() {
    let mut bench = sessions(3);
    for id in ["a", "b", "c"] {
        (0..3000).for_each(|_| bench.speak(id));
    }
    bench.event("new", CREATED);
    assert_eq!(ends(&bench.commit()), [("a".into(), EndReason::Evicted)]);
}

#[test]
fn limits_that_were_lowered_are_kept_to_again_with_the_next_records() {
    let mut bench = Bench::new();
    (0..100).for_each(|n| bench.speak(&format!("s{n}")));
    bench.commit();
    bench.restart(within(Limits { sessions: 10, ..Limits::default() }));
    bench.event("new", CREATED);
    let batch = bench.commit();
    assert_eq!((batch.bundles.len(), bench.task.open_sessions()), (91, 10));
    bench.restart(within(Limits { state_bytes: 8 << 10, ..Limits::default() }));
    bench.event("newer", CREATED);
    bench.commit();
    assert!(bench.task.state_size().bytes < 8 << 10, "{:?}", bench.task.state_size());
}

#[test]
fn a_session_that_takes_more_than_all_the_room_is_cut_off_in_its_own_event() {
    let mut bench = Bench::with(within(Limits { state_bytes: 8 << 10, ..Limits::default() }));
    (0..100).for_each(|n| drop(bench.event("a", &created(n)).event("a", SPEAK).commit()));
    let evicted = bench.log.iter().filter(|entry| entry.key.starts_with(b"C") && entry.value.is_some()).count();
    assert_eq!((evicted, bench.task.open_sessions()), (1, 0));
}

#[test]
fn a_flood_of_ids_makes_room_for_itself_and_a_new_session_gets_through() {
    let mut bench = sessions(100);
    let flood = |bench: &mut Bench, from: usize, keys: usize| {
        for key in from..from + keys {
            bench.event(&format!("flood-{key}"), CREATED);
        }
    };
    bench.event("early", CREATED);
    (0..20).for_each(|_| bench.speak("early"));
    flood(&mut bench, 0, 1000);
    bench.event("within", CREATED);
    for n in 0..20 {
        flood(&mut bench, 1000 + n * 50, 50);
        bench.event("within", SPEAK);
    }
    flood(&mut bench, 3000, 1000);
    bench.event("early", CLOSED).event("within", CLOSED).silence(2);
    let batch = bench.commit();
    for (id, events) in [("early", 22), ("within", 22)] {
        let session = &bundle_of(&batch, id)["session"];
        let got = (&session["end_reason"], &session["events"], &session["truncated"]);
        assert_eq!(got, (&"closed".into(), &events.into(), &false.into()), "{id}");
    }
    assert_eq!(batch.counts.sessions_finished[&EndReason::Evicted], 3000 + 2 - 100);
}

#[test]
fn a_session_that_hoards_makes_room_before_those_that_talk() {
    let mut bench = Bench::with(within(Limits { state_bytes: 1 << 20, ..Limits::default() }));
    for id in ["a", "b", "c"] {
        bench.event(id, CREATED);
        (0..50).for_each(|_| bench.speak(id));
    }
    for response in 0..3000 {
        bench.event("hoard", &created(response));
    }
    for id in ["a", "b", "c"] {
        bench.event(id, CLOSED);
    }
    bench.silence(2);
    let batch = bench.commit();
    let reasons = ends(&batch);
    assert_eq!(reasons[0], ("hoard".into(), EndReason::Evicted));
    assert_eq!(reasons[1..].iter().filter(|(_, reason)| *reason == EndReason::Closed).count(), 3);
}

#[test]
fn what_one_session_may_hold_is_bounded_and_told() {
    let limits = Limits { session_bytes: 64 << 10, ..Limits::default() };
    let mut bench = Bench::with(within(limits.clone()));
    bench.event("a", CREATED);
    for response in 0..1000 {
        bench.event("a", &created(response));
    }
    assert!(bench.task.state_size().bytes < limits.session_bytes + 2048, "{:?}", bench.task.state_size());
    bench.event("a", CLOSED).silence(2);
    let batch = bench.commit();
    let session = &bundle_of(&batch, "a")["session"];
    let unfinished = session["responses"]["unfinished"].as_u64().expect("a count");
    assert!((20..200).contains(&unfinished), "{unfinished}");
    assert_eq!((&session["truncated"], &session["events"]), (&true.into(), &1002.into()));
}

#[test]
fn a_session_without_room_for_metrics_goes_on_without_them() {
    let itls = |n: usize| format!(r#"{{"0":{{"vllm_ttft_ms":7,"vllm_itls_ms":[{}1]}}}}"#, "1.5,".repeat(n));
    let event = |kind: &str, response: &str, itls: String| {
        format!(r#"{{"type":"{kind}","response_id":"{response}","metadata":{{"stage_metrics":{itls}}}}}"#)
    };
    let mut bench = Bench::with(within(Limits { session_bytes: 64 << 10, ..Limits::default() }));
    bench.event("a", &created(0)).event("a", &event("response.done", "r0", itls(20)));
    bench.event("a", &created(1)).event("a", &event("response.done", "r1", itls(20_000)));
    bench.event("a", CLOSED).silence(2);
    let bundle = bundle_of(&bench.commit(), "a");
    let rows = bundle["request_metrics"].as_array().expect("rows");
    assert_eq!((rows.len(), &rows[0]["stages"]["0"]["ttft_ms"]), (1, &7.0.into()));
    assert_eq!(bundle["session"]["truncated"], true);
}

#[test]
fn facts_that_wait_for_a_start_are_bounded_by_their_bytes_too() {
    let mut bench = Bench::with(Settings::default());
    let itls = "1.5,".repeat(500);
    let metrics = format!(
        r#"{{"type":"x","response_id":"r0","metadata":{{"stage_metrics":{{"0":{{"vllm_itls_ms":[{itls}1]}}}}}}}}"#
    );
    bench.event("a", &created(0));
    for _ in 0..100 {
        bench.event("a", &metrics);
        assert!(bench.task.state_size().bytes < 80 << 10, "{:?}", bench.task.state_size());
    }
    bench.event("a", CLOSED).silence(2);
    let bundle = bundle_of(&bench.commit(), "a");
    assert_eq!(bundle["session"]["truncated"], false);
    assert_eq!(bundle["request_metrics"][0]["stage0_tokens"]["itls_ms"].as_array().map(Vec::len), Some(501));
}

#[test]
fn a_session_in_its_grace_makes_room_as_what_it_is() {
    let mut bench = sessions(1);
    bench.event("a", CREATED).event("a", CLOSED).event("b", CREATED);
    let batch = bench.commit();
    assert_eq!(ends(&batch), [("a".into(), EndReason::Closed)]);
    assert_eq!(bundle_of(&batch, "a")["session"]["truncated"], false);
}

#[test]
fn markers_are_bounded_and_the_oldest_is_forgotten_first() {
    let mut bench = Bench::with(within(Limits { state_bytes: 64 << 10, ..Limits::default() }));
    for session in 0..1000 {
        let id = format!("s{session}");
        bench.event(&id, CREATED).event(&id, CLOSED).silence(2);
    }
    let batch = bench.commit();
    let size = bench.task.state_size();
    assert!(size.open_sessions == 0 && (8 << 10..=16 << 10).contains(&size.bytes), "{size:?}");
    assert!(batch.counts.markers_evicted > 800, "{}", batch.counts.markers_evicted);
    assert_eq!(bench.state.closed.len() as u64, 1000 - batch.counts.markers_evicted);
    let outcome = |bench: &mut Bench, id: &str| {
        bench.event(id, SPEAK);
        *bench.commit().counts.events.keys().next().expect("an event")
    };
    assert_eq!(outcome(&mut bench, "s999"), (EventClass::Response, Outcome::Late));
    assert_eq!(outcome(&mut bench, "s0"), (EventClass::Response, Outcome::Accepted));
}

#[test]
fn a_restored_task_counts_its_state_as_before() {
    let done = |response: usize, stages: &str, origin: &str| {
        let request = format!(r#"{{"ttft_ms":1,"measurement_origin":{origin}}}"#);
        let metadata = format!(r#"{{"stage_metrics":{stages},"response_request_metrics":{request}}}"#);
        format!(r#"{{"type":"response.done","response_id":"r{response}","metadata":{metadata}}}"#)
    };
    let (long, short) = (r#"{"0":{"vllm_itls_ms":[1,2,3]},"1":{}}"#, r#"{"0":{"output_unit_type":"text"}}"#);
    let mut bench = Bench::new();
    let restart = |bench: &mut Bench| {
        bench.commit();
        let before = bench.task.state_size();
        bench.restart(Settings::default());
        assert_eq!(bench.task.state_size(), before);
    };
    bench.record(Some(b"a"), Some(CREATED.as_bytes()), vec![Header { name: "run_id", value: Some(b"nightly") }]);
    bench.event("b", CLOSED).event("c", CREATED).silence(2);
    restart(&mut bench);
    for response in 0..6 {
        if response == 3 {
            bench.event("a", r#"{"type":"collector.stream_start"}"#);
            restart(&mut bench);
        }
        bench.event("a", &created(response)).event("a", &done(response, long, r#"{"ttft":"there"}"#));
        restart(&mut bench);
        bench
            .event("a", &done(response, short, "{}"))
            .event("a", r#"{"type":"error","error":{"code":"server_error"}}"#);
        restart(&mut bench);
    }
    bench.event("a", CLOSED).silence(2);
    restart(&mut bench);
}
