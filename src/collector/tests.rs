//! What one session makes of its events (contract.md sections 1.3, 2 and 3).

use std::time::Duration;

use super::*;
use crate::ids::{Offset, SessionId};
use crate::time::Timestamp;
use crate::wire::{Decoder, Kind};

mod window;

fn arrival(at: f64) -> Arrival<'static> {
    Arrival {
        received_at_s: at,
        clock: ReceiveClock::ClientMonotonic,
        timestamp: Some(Timestamp((at * 1000.0) as i64)),
        now: Timestamp((at * 1000.0) as i64),
        offset: Offset(0),
        labels: Labels::default(),
    }
}

fn session() -> SessionCollector {
    SessionCollector::open(SessionId::from("s"), &arrival(0.0))
}

fn handle(session: &mut SessionCollector, settings: &Settings, at: f64, json: &str) -> Handled {
    let mut decoder = Decoder::new(1 << 20);
    let event = decoder.decode(json.as_bytes()).expect("an event");
    session.handle_event(&event, &arrival(at), settings)
}

fn audio(response: &str, seq: u64) -> String {
    format!(
        r#"{{"type":"response.output_audio.delta","response_id":"{response}","delta":"AAAA","server_event_seq":{seq}}}"#
    )
}

#[test]
fn a_replayed_event_is_dropped_and_a_jump_is_counted() {
    let (mut session, settings) = (session(), Settings::default());
    let seq = |seq: &str| format!(r#"{{"type":"response.speak","server_event_seq":{seq}}}"#);
    let handled: Vec<_> = ["5", "5", "4", "6", "9", "true", "9.0", "\"3\""]
        .map(|number| handle(&mut session, &settings, 1.0, &seq(number)))
        .into();
    use Handled::*;
    assert_eq!(handled, [Accepted, Duplicate, Duplicate, Accepted, Accepted, Accepted, Accepted, Accepted]);
    let tallies = &session.head().tallies;
    assert_eq!((tallies.events, tallies.duplicates, tallies.gaps), (6, 2, 1));
}

#[test]
fn facts_before_a_late_marker_are_left_out_and_bytes_are_not() {
    let (mut session, settings) = (session(), Settings::default());
    handle(&mut session, &settings, 1.0, r#"{"type":"response.created","response_id":"r"}"#);
    handle(&mut session, &settings, 2.0, &audio("r", 1));
    handle(&mut session, &settings, 3.0, &audio("r", 2));
    handle(&mut session, &settings, 2.5, r#"{"type":"collector.stream_start"}"#);
    session.finish(&settings);
    let response = session.known_responses()[0];
    let window = &response.in_window;
    assert_eq!((window.created, window.packets, response.bytes), (None, 1, 6));
    assert_eq!(window.first_audio.map(|moment| moment.at), Some(3.0));
}

#[test]
fn limits_mark_the_session_and_keep_the_rest_right() {
    let limits = Limits { responses: 1, error_codes: 1, ..Limits::default() };
    let (mut session, settings) = (session(), Settings { limits, ..Settings::default() });
    handle(&mut session, &settings, 1.0, r#"{"type":"response.created","response_id":"a"}"#);
    assert!(!session.head().truncated);
    handle(&mut session, &settings, 1.0, r#"{"type":"response.created","response_id":"b"}"#);
    assert!(session.head().truncated);
    for code in ["x", "y", "z"] {
        handle(&mut session, &settings, 1.0, &format!(r#"{{"type":"error","error":{{"code":"{code}"}}}}"#));
    }
    assert_eq!(session.known_responses().len(), 1);
    assert_eq!(*session.head().tallies.errors.counts(), [("other".to_owned(), 2), ("x".to_owned(), 1)].into());
}

#[test]
fn deadlines_are_grace_after_an_end_and_the_nearer_of_two_without() {
    let (mut session, settings) = (session(), Settings::default());
    assert_eq!(session.handle_timeout(Timestamp(359_999), &settings), None);
    assert_eq!(session.handle_timeout(Timestamp(360_000), &settings), Some(EndReason::IdleTimeout));
    let short = Settings { max_duration: Duration::from_secs(5), ..Settings::default() };
    assert_eq!(session.handle_timeout(Timestamp(360_000), &short), Some(EndReason::MaxDuration));
    handle(&mut session, &settings, 2.0, r#"{"type":"session.expired"}"#);
    handle(&mut session, &settings, 2.5, r#"{"type":"session.closed"}"#);
    assert_eq!(session.next_deadline(&settings), Timestamp(3000));
    assert_eq!(session.handle_timeout(Timestamp(3000), &settings), Some(EndReason::Expired));
}

#[test]
fn replaced_sessions_errors_and_resyncs_end_nothing() {
    let (mut session, settings) = (session(), Settings::default());
    for kind in ["session.replaced", "session.resync_required", "error"] {
        handle(&mut session, &settings, 1.0, &format!(r#"{{"type":"{kind}"}}"#));
    }
    assert_eq!(session.head().ended, None);
}

/// The records of facts that wait as they stand after these.
fn held<'a>(snapshots: &[&'a Snapshot]) -> std::collections::BTreeMap<u32, &'a [u8]> {
    snapshots.iter().flat_map(|snapshot| &snapshot.held).map(|(index, facts)| (*index, &facts[..])).collect()
}

#[test]
fn facts_that_waited_leave_their_snapshots_once_the_stream_start_is_certain() {
    let (mut session, settings) = (session(), Settings::default());
    for seq in 1..=9 {
        handle(&mut session, &settings, 1.0, &audio("r", seq));
        let snapshot = session.snapshot();
        // The ninth begins another record; those before stay as they are.
        let changed: Vec<_> = snapshot.held.into_iter().map(|(index, _)| index).collect();
        assert_eq!(changed, [if seq == 9 { 1 } else { 0 }]);
        assert_eq!(snapshot.released, 0);
    }
    handle(&mut session, &settings, 0.5, r#"{"type":"collector.stream_start"}"#);
    let settled = session.snapshot();
    assert_eq!((settled.held, settled.released, settled.responses.len()), (vec![], 2, 1));
    handle(&mut session, &settings, 2.0, &audio("r", 10));
    assert_eq!(session.snapshot().released, 0);
}

#[test]
fn a_snapshot_restores_to_the_same_session_and_carries_only_what_changed() {
    let (mut session, settings) = (session(), Settings::default());
    for (at, response) in [(1.0, "a"), (2.0, "b")] {
        let created = format!(r#"{{"type":"response.created","response_id":"{response}"}}"#);
        handle(&mut session, &settings, at, &created);
    }
    let first = session.snapshot();
    assert_eq!(first.responses.len(), 2);
    handle(&mut session, &settings, 3.0, &audio("b", 1));
    let second = session.snapshot();
    assert_eq!(second.responses.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    let parts = [(0, &first.responses[0].1[..]), (1, &second.responses[0].1[..])];
    let restored = SessionCollector::restore(SessionId::from("s"), &second.head, held(&[&first, &second]), parts);
    assert_eq!(restored.expect("restores"), session);
    let lacks_facts = SessionCollector::restore(SessionId::from("s"), &second.head, [], parts);
    assert_eq!(lacks_facts, Err(SnapshotError::MissingFacts));
}

#[test]
fn a_snapshot_that_cannot_be_trusted_is_refused() {
    let (mut session, settings) = (session(), Settings::default());
    handle(&mut session, &settings, 1.0, r#"{"type":"response.created","response_id":"a"}"#);
    let snapshot = session.snapshot();
    let restore = |head: &[u8]| SessionCollector::restore(SessionId::from("s"), head, held(&[&snapshot]), []).err();
    assert_eq!(restore(&snapshot.head), Some(SnapshotError::MissingResponse { index: 0, of: 1 }));
    assert_eq!(restore(&[SNAPSHOT_VERSION + 1]), Some(SnapshotError::UnknownVersion(SNAPSHOT_VERSION + 1)));
    assert!(matches!(restore(&snapshot.head[..4]), Some(SnapshotError::Damaged(_))));
    // As no session writes it: without any event, or with facts of a response that it does not know.
    let without_events = self::session().snapshot();
    let restored = SessionCollector::restore(SessionId::from("s"), &without_events.head, [], []);
    assert!(matches!(restored, Err(SnapshotError::Damaged(_))), "{restored:?}");
    let mut knows_none = session.clone();
    knows_none.head.responses = 0;
    let head = knows_none.snapshot().head;
    let restored = SessionCollector::restore(SessionId::from("s"), &head, held(&[&snapshot]), []);
    assert!(matches!(restored, Err(SnapshotError::Damaged(_))), "{restored:?}");
}

#[test]
fn a_snapshot_holds_no_text_and_no_audio() {
    let (mut session, settings) = (session(), Settings::default());
    let json = r#"{"type":"response.output_text.delta","response_id":"r","delta":"PRIVATE","audio":"PRIVATE",
        "resume_token":"PRIVATE","metadata":{"text":"PRIVATE","stage_metrics":{"0":{"prompt":"PRIVATE"}}}}"#;
    handle(&mut session, &settings, 1.0, json);
    let snapshot = session.snapshot();
    let [(_, held)] = &snapshot.held[..] else { panic!("its facts wait") };
    let all = [&snapshot.head, &snapshot.responses[0].1, held].map(|part| &part[..]).concat();
    assert!(!all.windows(7).any(|window| window == b"PRIVATE"));
}

#[test]
fn an_unknown_event_with_metrics_counts_like_any_other() {
    let (mut session, settings) = (session(), Settings::default());
    let json = r#"{"type":"duplex.raw.future","response":{"id":"r","metadata":{"stage_metrics":{"0":{}}}}}"#;
    handle(&mut session, &settings, 1.0, r#"{"type":"response.created","response_id":"r"}"#);
    handle(&mut session, &settings, 1.0, json);
    session.finish(&settings);
    assert_eq!(session.known_responses()[0].in_window.stages().len(), 1);
    assert_eq!(Kind::of("duplex.raw.future").class(), crate::wire::EventClass::Other);
}

#[test]
fn a_cancel_of_the_client_s_makes_no_response_known() {
    let (mut session, settings) = (session(), Settings::default());
    handle(&mut session, &settings, 1.0, r#"{"type":"response.cancel","response_id":"r"}"#);
    assert_eq!(session.response_count(), 0);
    handle(&mut session, &settings, 2.0, r#"{"type":"response.created","response_id":"r"}"#);
    handle(&mut session, &settings, 3.0, r#"{"type":"response.cancel","response_id":"r"}"#);
    handle(&mut session, &settings, 4.0, r#"{"type":"response.cancel","response_id":"r"}"#);
    let response = session.known_responses()[0];
    assert_eq!((response.ended.map(|moment| moment.at), response.status), (Some(3.0), None));
}

#[test]
fn a_packet_s_bytes_last_by_the_sample_rate_it_came_with_and_only_in_the_window() {
    // 4800 bytes, 100 ms at 24 kHz and 150 ms at 16 kHz.
    let audio = |rate: &str| {
        let payload = "A".repeat(6400);
        format!(r#"{{"type":"response.output_audio.delta","response_id":"r","delta":"{payload}"{rate}}}"#)
    };
    let (mut session, settings) = (session(), Settings::default());
    handle(&mut session, &settings, 0.5, r#"{"type":"response.created","response_id":"r"}"#);
    handle(&mut session, &settings, 0.75, &audio(""));
    handle(&mut session, &settings, 1.0, &audio(""));
    handle(&mut session, &settings, 1.25, &audio(r#","sample_rate_hz":16000"#));
    handle(&mut session, &settings, 1.5, &audio(""));
    handle(&mut session, &settings, 0.9, r#"{"type":"collector.stream_start"}"#);
    let playback = session.known_responses()[0].in_window.playback.expect("every packet is known");
    // Dry from 100 to 250 ms, then 150 ms of audio until 400: the third packet is 100 ms late, which is in time.
    assert_eq!((playback.max_gap_ms, playback.underruns, playback.underrun_ms), (Some(250.0), 1, 150.0));
}

#[test]
fn a_session_ended_at_its_own_end_or_when_its_timeout_ran_out() {
    let (mut session, settings) = (session(), Settings::default());
    let ended_at = |session: &SessionCollector, reason| session.ended_at(reason, Timestamp(999_999), &settings).0;
    assert_eq!(ended_at(&session, EndReason::IdleTimeout), 360_000);
    assert_eq!(ended_at(&session, EndReason::EndOfInput), 999_999);
    handle(&mut session, &settings, 2.0, r#"{"type":"session.closed"}"#);
    handle(&mut session, &settings, 2.5, r#"{"type":"response.listen"}"#);
    assert_eq!(ended_at(&session, EndReason::Closed), 2_000);
}

#[test]
fn a_resync_voids_the_sequence_and_the_onset_of_speech() {
    let (mut session, settings) = (session(), Settings::default());
    for json in [
        r#"{"type":"response.created","response_id":"r","server_event_seq":7}"#,
        r#"{"type":"input_audio_buffer.speech_started","server_event_seq":8}"#,
        r#"{"type":"session.resync_required","server_event_seq":9}"#,
        r#"{"type":"response.speak","server_event_seq":1}"#,
        r#"{"type":"response.done","response":{"id":"r","status":"cancelled"},"server_event_seq":2}"#,
    ] {
        assert_eq!(handle(&mut session, &settings, 1.0, json), Handled::Accepted, "{json}");
    }
    assert_eq!(session.head().tallies.gaps, 0);
    assert_eq!(session.known_responses()[0].speech_onset, None);
    // Once it was dropped as a duplicate it voids nothing.
    handle(&mut session, &settings, 1.0, r#"{"type":"session.resync_required","server_event_seq":2}"#);
    let again = handle(&mut session, &settings, 1.0, r#"{"type":"response.speak","server_event_seq":1}"#);
    assert_eq!(again, Handled::Duplicate);
}

#[test]
fn a_session_with_a_response_is_small() {
    let settings = Settings::default();
    let id = SessionId::from("sess_0123456789abcdef0123456789abcdef");
    let mut session = SessionCollector::open(id, &arrival(0.0));
    let id = "resp_0123456789abcdef0123";
    let created = format!(r#"{{"type":"response.created","response_id":"{id}"}}"#);
    let text = format!(r#"{{"type":"response.text.delta","response_id":"{id}","delta":"hello"}}"#);
    let done = format!(r#"{{"type":"response.done","response":{{"id":"{id}","status":"completed"}}}}"#);
    let opening = r#"{"type":"session.created","event_id":"event_0123456789abcdef","session":{"model":"Qwen3-Omni-30B-A3B-Instruct"}}"#.to_owned();
    for json in [opening, created, text, audio(id, 1), audio(id, 2), done] {
        handle(&mut session, &settings, 1.0, &json);
    }
    assert!(session.state_bytes() <= 1024, "{} bytes", session.state_bytes());
}
