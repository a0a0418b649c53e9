//! Where a source of the stream start comes after more facts than can wait (contract.md section 2).

use super::*;

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
