//! A new conversation under an old id begins with nothing of the old one (contract.md section 7).

use super::*;

/// A conversation of one response, numbered from 1.
fn conversation(bench: &mut Bench, event_id: &str) {
    let created = format!(r#"{{"type":"session.created","event_id":"{event_id}","server_event_seq":1}}"#);
    bench.event("a", &created);
    bench.event("a", r#"{"type":"response.created","response_id":"r","server_event_seq":2}"#);
    bench.event("a", r#"{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA","server_event_seq":3}"#);
}

fn reasons_and_events(bench: &mut Bench) -> Vec<(String, u64, u64)> {
    let told = |bundle: &Bundle| {
        let session = &json(bundle)["session"];
        let count = |key: &str| session[key].as_u64().expect("a count");
        (session["end_reason"].as_str().expect("a reason").to_owned(), count("events"), count("duplicates"))
    };
    bench.task.end_of_input();
    bench.commit().bundles.iter().map(told).collect()
}

#[test]
fn a_session_created_on_an_open_id_ends_the_old_conversation_and_begins_another() {
    for restart in [false, true] {
        let mut bench = Bench::new();
        bench.at(0.0);
        conversation(&mut bench, "one");
        if restart {
            bench.commit();
            bench.restart(Settings::default());
        }
        bench.at(5.0);
        conversation(&mut bench, "two");
        let expected = [("restarted".to_owned(), 3, 0), ("end_of_input".to_owned(), 3, 0)];
        assert_eq!(reasons_and_events(&mut bench), expected, "restart: {restart}");
    }
}

#[test]
fn one_that_said_how_it_ended_ends_so() {
    let mut bench = Bench::new();
    bench.at(0.0);
    conversation(&mut bench, "one");
    bench.event("a", CLOSED).at(0.5);
    conversation(&mut bench, "");
    let expected = [("closed".to_owned(), 4, 0), ("end_of_input".to_owned(), 3, 0)];
    assert_eq!(reasons_and_events(&mut bench), expected);
}

#[test]
fn its_own_session_created_again_is_a_duplicate() {
    let mut bench = Bench::new();
    bench.at(0.0);
    conversation(&mut bench, "one");
    bench.event("a", r#"{"type":"session.created","event_id":"one","server_event_seq":4}"#);
    assert_eq!(reasons_and_events(&mut bench), [("end_of_input".to_owned(), 3, 1)]);
    // Without an id too, while it has said nothing else.
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("a", CREATED).event("a", SPEAK);
    assert_eq!(reasons_and_events(&mut bench), [("end_of_input".to_owned(), 2, 1)]);
}

#[test]
fn its_own_session_created_may_come_after_other_events() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", r#"{"type":"input_audio_buffer.append"}"#).event("a", CREATED).event("a", SPEAK);
    assert_eq!(reasons_and_events(&mut bench), [("end_of_input".to_owned(), 3, 0)]);
}
