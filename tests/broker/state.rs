//! State that is gone, or not of the group's offset: the service stops and says so, and what it says helps.

use crate::operator::Operator;
use crate::service::{Deployment, Service};
use crate::topics::send_all;
use crate::wait::until_true;
use crate::{START, deployment, expected};

/// The exit code of a state that can't be gone on with.
const STATE_UNUSABLE: i32 = 72;

#[track_caller]
fn assert_refused(deployment: &Deployment, settings: &[(&str, &str)], why: &str) {
    // What may come together by itself is waited for.
    let settings = [settings, &[("DUPLEX_WORKER__RESTORE_TIMEOUT", "3s")]].concat();
    assert_ended(deployment.start("a", &settings), why);
}

/// Waits until the service has ended by a state that can't be gone on with, and has said so.
#[track_caller]
pub fn assert_ended(service: Service, why: &str) {
    let (status, log) = service.wait_until_ended();
    assert_eq!(status.code(), Some(STATE_UNUSABLE), "{log}");
    assert!(log.contains(why), "the log does not say `{why}`:\n{log}");
}

#[test]
fn a_state_that_is_lost_or_of_another_offset_stops_the_service_and_its_remedies_help() {
    let deployment = deployment("state");
    let mut records = expected::traffic(7, 60, START);
    // Everybody is in the middle of a session.
    records.truncate(records.len() / 2);
    send_all(&deployment, &records);
    let service = deployment.start_ready("a", &[]);
    until_true("all records are committed", || service.metric("duplex_records_total") == Some(records.len() as f64));
    let open = service.metric("duplex_sessions_open").expect("a gauge");
    assert!(open > 20.0, "{open} sessions are open");
    service.terminate_well();

    let operator = Operator::of(&deployment);
    let committed = operator.committed();
    let another_group = format!("{}-other", deployment.name);
    assert_refused(&deployment, &[("DUPLEX_KAFKA__GROUP_ID", &another_group)], "the group has no committed offset");

    let earlier = committed.iter().map(|(partition, offset)| (*partition, offset - 1)).collect();
    operator.set_offsets(&earlier);
    assert_refused(&deployment, &[], "it was set by hand");
    operator.set_offsets(&committed);
    let service = deployment.start_ready("a", &[]);
    assert_eq!(service.metric("duplex_sessions_open"), Some(open), "the sessions are back");
    // Their offsets get our mark again with the next commit.
    send_all(&deployment, &records);
    until_true("all records are committed", || service.metric("duplex_records_total") == Some(records.len() as f64));
    service.terminate_well();

    let committed = operator.committed();
    operator.truncate_changelog();
    assert_refused(&deployment, &[], "the changelog is incomplete");
    operator.delete_topic("changelog");
    assert_refused(&deployment, &[], "with a state that the changelog does not have");
    operator.set_offsets(&committed);
    let service = deployment.start_ready("a", &[]);
    assert_eq!(service.metric("duplex_sessions_open"), Some(0.0));
    service.terminate_well();

    operator.write_checkpoint_of_a_newer_release();
    assert_refused(&deployment, &[], "snapshot version 255 is not known to this release");
}

#[test]
fn what_the_promise_rests_on_and_is_wanting_is_said_at_start() {
    let deployment = deployment("wanting");
    deployment.start_ready("a", &[]).terminate_well();
    let operator = Operator::of(&deployment);
    // In one step, for each sets the others back.
    operator.configure_changelog(&[("cleanup.policy", "compact"), ("delete.retention.ms", "60000")]);
    let service = deployment.start_ready("a", &[]);
    let log = service.log();
    service.terminate_well();
    assert_eq!(log.matches("the cluster has one broker").count(), 1, "{log}");
    assert!(log.contains("delete.retention.ms=60000"), "{log}");
    assert!(!log.contains("min.insync.replicas"), "one broker is one warning\n{log}");
}
