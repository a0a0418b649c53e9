//! What `loadgen` writes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::topics::Judge;
use crate::{deployment, expected};

#[test]
fn loadgen_stamps_now_at_any_rate_and_makes_other_sessions_at_each_call() {
    let deployment = deployment("loadgen");
    let begun = expected::now();
    let mut records = Vec::new();
    for calls in 1..=2 {
        let mut command = deployment.command("loadgen");
        command.args(["--sessions", "5", "--rate", "0", "--payload-bytes", "9"]);
        let output = command.output().expect("loadgen can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        records = Judge::all_of(&deployment, "events");
        let sessions: BTreeSet<_> = records.iter().map(|record| &record.key).collect();
        assert_eq!(sessions.len(), 5 * calls);
    }
    let ended = expected::now();
    for record in records {
        let at = record.timestamp.expect("a timestamp");
        assert!((begun.0..=ended.0).contains(&at), "{at} is not of {begun:?} to {ended:?}");
        // The figures rest on the client's own clock: a second of the traffic is less than one of the timestamps.
        let event: Value = serde_json::from_slice(&record.value).expect("JSON");
        assert!(event["_client_received_at_s"].is_number(), "{event}");
    }
}
