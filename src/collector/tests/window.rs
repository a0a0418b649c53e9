//! Where a source of the stream start comes after more facts than can wait (contract.md section 2).

use super::*;
use crate::wire::Scalar;

/// A session after these events, a hundred audio packets, one a second from 101 s on, and then a marker.
fn session_with_late_marker(first: &[(f64, &str)], marker: f64) -> SessionCollector {
    let (mut session, settings) = (session(), Settings::default());
    for (at, kind) in first {
        handle(&mut session, &settings, *at, &format!(r#"{{"type":"{kind}"}}"#));
    }
    for n in 0..100 {
        handle(&mut session, &settings, 101.0 + n as f64, &audio("r", n + 1));
    }
    handle(&mut session, &settings, marker, r#"{"type":"collector.stream_start"}"#);
    session.finish(&settings);
    session
}

/// Its first and last audio packet in the window, in seconds.
fn audio_in_window(session: &SessionCollector) -> (Option<f64>, Option<f64>) {
    let window = &session.responses[0].in_window;
    let at = |moment: Option<Moment>| moment.map(|moment| moment.at);
    (at(window.first_audio), at(window.last_audio))
}

#[test]
fn one_of_another_time_than_it_came_at_moves_what_is_settled() {
    for (marker, expected) in [
        // Before all of them, which stay; and those that an append had left out come back.
        (1.0, (Some(101.0), Some(200.0))),
        (101.0, (Some(101.0), Some(200.0))),
        // After all of them.
        (999.0, (None, None)),
    ] {
        for first in [(0.0, "session.created"), (150.0, "input_audio_buffer.append")] {
            let session = session_with_late_marker(&[first], marker);
            assert_eq!(audio_in_window(&session), expected, "{marker} after {first:?}");
            assert!(!session.head().truncated);
        }
    }
}

#[test]
fn one_between_settled_facts_cuts_the_window_as_well_as_known_and_says_so() {
    let session = session_with_late_marker(&[(0.0, "session.created")], 110.5);
    assert!(session.head().truncated);
    // The first one that waited is in for certain; of those before it some were, and it is not known which.
    assert_eq!(audio_in_window(&session), (Some(137.0), Some(200.0)));
}

/// A response's event with this `vllm_omni`.
fn metrics(omni: &str) -> String {
    format!(r#"{{"type":"x","response_id":"r","vllm_omni":{omni}}}"#)
}

#[test]
fn what_the_server_says_later_wins_key_by_key_null_included() {
    let (mut session, settings) = (session(), Settings::default());
    let said = [r#"{"ttft_ms":1,"ttfp_ms":2,"measurement_origin":{"ttft":"a"}}"#, r#"{"ttft_ms":null,"other":{}}"#];
    let origin = r#"{"measurement_origin":7}"#;
    for (said, expected) in [(&said[..], Some("a")), (&[said[0], said[1], origin], None)] {
        for said in said {
            handle(&mut session, &settings, 1.0, &metrics(&format!(r#"{{"response_request_metrics":{said}}}"#)));
        }
        let mut session = session.clone();
        session.finish(&settings);
        let window = &session.responses[0].in_window;
        assert_eq!((window.server_ttft_ms(), window.server_ttfp_ms()), (Some(Scalar::Null), Some(Scalar::Int(2))));
        assert_eq!(window.server_origin().and_then(|origin| origin.ttft.as_deref()), expected);
    }
}

#[test]
fn a_response_keeps_within_its_limits_on_both_sides_of_the_window_together() {
    let limits = Limits { interval_values: 9_000, ..Limits::default() };
    let (mut session, settings) = (session(), Settings { limits, ..Settings::default() });
    let stages = format!(r#"{{"stage_metrics":{{"0":{{"vllm_itls_ms":[{}1]}}}}}}"#, "1,".repeat(8_999));
    handle(&mut session, &settings, 100.0, r#"{"type":"session.created"}"#);
    for at in [50.0, 101.0] {
        // It is too large to wait.
        handle(&mut session, &settings, at, &metrics(&stages));
        assert_eq!(session.waiting.facts().len(), 0);
    }
    let response = &session.responses[0];
    let values =
        |window: &Windowed| -> usize { window.stages().iter().map(|stage| stage.snapshot.interval_values()).sum() };
    let before = response.before_window.as_deref().map_or(0, values);
    assert_eq!((before + values(&response.in_window), session.head().truncated), (9_000, true));
}

#[test]
fn once_the_start_is_certain_nothing_is_kept_of_what_was_before_it() {
    let session = session_with_late_marker(&[(150.0, "input_audio_buffer.append")], 999.0);
    assert!(session.responses[0].before_window.is_none() && session.head.start.settled.is_none());
    assert_eq!(session.parts_bytes, session.measure_parts());
}

#[test]
fn a_source_of_another_clock_moves_nothing_that_is_settled() {
    let (mut session, settings) = (session(), Settings::default());
    handle(&mut session, &settings, 100.0, r#"{"type":"session.created"}"#);
    for n in 0..100 {
        handle(&mut session, &settings, 101.0 + n as f64, &audio("r", n + 1));
    }
    let marker = r#"{"type":"collector.stream_start"}"#;
    let mut decoder = Decoder::new(1 << 20);
    let event = decoder.decode(marker.as_bytes()).expect("an event");
    session.handle_event(&event, &Arrival { clock: ReceiveClock::KafkaTimestamp, ..arrival(1.7e9) }, &settings);
    session.finish(&settings);
    assert_eq!(session.responses[0].in_window.packets, 100);
    assert!(!session.head().truncated);
}

/// A session with so many audio packets that wait.
fn waiting(count: u64) -> (SessionCollector, Settings) {
    let (mut session, settings) = (session(), Settings::default());
    for n in 1..=count {
        handle(&mut session, &settings, n as f64, &audio("r", n));
    }
    (session, settings)
}

fn ordinals(session: &SessionCollector) -> Vec<u32> {
    let mut ordinals: Vec<_> = session.waiting.facts().iter().map(|fact| fact.moment.ordinal).collect();
    ordinals.sort_unstable();
    ordinals
}

#[test]
fn what_an_earlier_release_let_wait_beyond_the_room_is_settled_with_the_next_event() {
    let (mut session, settings) = waiting(60);
    let mut facts = session.waiting.facts().to_vec();
    for nth in 0..300 {
        let mut fact = facts[0].clone();
        fact.moment.ordinal = 61 + nth;
        fact.moment.at = 60.0;
        facts.push(fact);
    }
    session.head.tallies.events = 360;
    session.waiting = super::super::waiting::Waiting::restored(facts, 40, true);
    session.parts_bytes = session.measure_parts();
    // A duplicate settles nothing, and its commit writes them all.
    handle(&mut session, &settings, 61.0, &audio("r", 1));
    assert_eq!(session.snapshot().held.len(), 45);
    handle(&mut session, &settings, 61.0, r#"{"type":"response.speak"}"#);
    assert_eq!(session.waiting.facts().len(), 64);
    assert!(!session.snapshot().held.is_empty());
    session.finish(&settings);
    assert_eq!(session.responses[0].in_window.packets, 360);
}

#[test]
fn records_of_facts_that_a_crash_left_apart_lose_none_and_double_none() {
    let (mut session, settings) = waiting(64);
    let before = session.snapshot();
    // One more takes the place of the first; the crash comes after the record of that place.
    handle(&mut session, &settings, 65.0, &audio("r", 65));
    let after = session.snapshot();
    let torn: Vec<(u32, &[u8])> = before
        .held
        .iter()
        .map(|(index, part)| (*index, &part[..]))
        .map(|(index, part)| (index, if index == 0 { &after.held[0].1[..] } else { part }))
        .collect();
    let responses = [(0, &after.responses[0].1[..])];
    let mut session = SessionCollector::restore(SessionId::from("s"), &before.head, torn, responses).expect("restores");
    handle(&mut session, &settings, 65.0, &audio("r", 65));
    let again = session.snapshot();
    assert_eq!(again.held.len(), 8, "every record is written anew");
    let held = again.held.iter().map(|(index, part)| (*index, &part[..]));
    let responses = [(0, &again.responses[0].1[..])];
    let session = SessionCollector::restore(SessionId::from("s"), &again.head, held, responses).expect("restores");
    assert_eq!(ordinals(&session), (2..=65).collect::<Vec<_>>());
}
