//! A topic that falls silent: sessions end by the wall clock, once, and what comes after is late, restart or not.

use serde_json::Value;

use crate::deployment;
use crate::topics::{Judge, event, send_all};
use crate::wait::until_true;

const SETTINGS: [(&str, &str); 1] = [("DUPLEX_SESSION__IDLE_TIMEOUT", "2s")];

#[test]
fn a_session_that_fell_silent_ends_once_and_its_late_events_are_late_after_a_restart_too() {
    const LATE: &str = r#"duplex_events_total{class="response",outcome="late"}"#;
    let deployment = deployment("silence");
    send_all(&deployment, &[event("s", r#"{"type":"session.created"}"#)]);
    let service = deployment.start_ready("a", &SETTINGS);
    let mut judge = Judge::of(&deployment, "bundles");
    // Nothing else is written: only the wall clock can end it.
    judge.read_until(1);
    let bundle: Value = serde_json::from_slice(&judge.records[0].value).expect("JSON");
    assert_eq!((&bundle["session_id"], &bundle["session"]["end_reason"]), (&"s".into(), &"idle_timeout".into()));
    // Not in good order: the marker came with the bundle, not with the drain.
    service.kill();

    let service = deployment.start_ready("a", &SETTINGS);
    send_all(&deployment, &[event("s", r#"{"type":"response.speak"}"#)]);
    until_true("the late event is counted", || service.metric(LATE) == Some(1.0));
    service.terminate_well();
    let service = deployment.start_ready("a", &SETTINGS);
    send_all(&deployment, &[event("s", r#"{"type":"response.speak"}"#), event("t", r#"{"type":"session.created"}"#)]);
    judge.read_until(2);
    until_true("the late event is counted", || service.metric(LATE) == Some(1.0));
    service.terminate_well();
    let mut keys: Vec<_> = Judge::all_of(&deployment, "bundles").into_iter().filter_map(|bundle| bundle.key).collect();
    // Their partitions are read in any order.
    keys.sort_unstable();
    assert_eq!(keys, ["s", "t"]);
}
