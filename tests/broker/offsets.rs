//! Which offsets are committed: past what is no record, and from the very beginning.

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::deployment;
use crate::operator::Operator;
use crate::service::Deployment;
use crate::topics::{Judge, event, send_all};
use crate::wait::{PATIENCE, until_true};

/// The exit code where records were deleted before they were read.
const RECORDS_LOST: i32 = 74;

/// Writes the events of a session that ends in a transaction, and then others in one that is aborted.
fn send_transactions(deployment: &Deployment, sessions: &[&str]) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &deployment.bootstrap).set("transactional.id", format!("{}-tap", deployment.name));
    let producer: BaseProducer = config.create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("the broker answers");
    let topic = deployment.topic("events");
    let send = |key: &str, kind: &str| {
        let value = format!(r#"{{"type":"{kind}"}}"#);
        producer.send(BaseRecord::to(&topic).key(key).payload(&value)).map_err(|(e, _)| e).expect("it is queued");
    };
    producer.begin_transaction().expect("begins");
    for session in sessions {
        send(session, "session.created");
        send(session, "session.closed");
    }
    producer.commit_transaction(PATIENCE).expect("commits");
    producer.begin_transaction().expect("begins");
    sessions.iter().for_each(|session| send(session, "session.created"));
    producer.flush(PATIENCE).expect("delivers");
    producer.abort_transaction(PATIENCE).expect("aborts");
}

#[test]
fn behind_markers_and_aborted_transactions_no_lag_is_left_and_their_deletion_is_no_loss() {
    let deployment = deployment("positions");
    let operator = Operator::of(&deployment);
    let sessions: Vec<String> = (0..12).map(|n| format!("s{n:02}")).collect();
    let mut judge = None;
    for (round, sessions) in sessions.chunks(4).enumerate() {
        // Read live at first, and later as a backlog.
        let is_live = round == 0;
        let early = is_live.then(|| deployment.start_ready("a", &[]));
        send_transactions(&deployment, &sessions.iter().map(String::as_str).collect::<Vec<_>>());
        let service = early.unwrap_or_else(|| deployment.start_ready("a", &[]));
        let judge = judge.get_or_insert_with(|| Judge::of(&deployment, "bundles"));
        judge.read_until(4 * (round + 1));
        until_true("a monitor of lag sees none", || operator.lag() == Some(0));
        // Nothing is committed on the way out.
        service.kill();
        operator.delete_events_below(&operator.ends());
    }
    // All is deleted, nothing was lost.
    deployment.start_ready("a", &[]).terminate_well();
    let mut keys: Vec<_> = Judge::all_of(&deployment, "bundles").into_iter().filter_map(|bundle| bundle.key).collect();
    keys.sort_unstable();
    assert_eq!(keys, sessions);
}

#[test]
fn what_is_deleted_of_a_partition_that_is_owned_and_was_never_read_is_missed() {
    let deployment = deployment("beginning");
    let operator = Operator::of(&deployment);
    let service = deployment.start_ready("a", &[]);
    until_true("the beginning is committed", || operator.lag() == Some(0));
    service.kill();
    send_all(&deployment, &[event("s", r#"{"type":"session.created"}"#)]);
    operator.delete_events_below(&operator.ends());
    let (status, log) = deployment.start("a", &[]).wait_until_ended();
    assert_eq!(status.code(), Some(RECORDS_LOST), "{log}");
    assert!(log.contains("records were deleted before they were read"), "{log}");
}
