//! What a worker does while Kafka does not answer, and what it says of it.

use super::*;

fn undecided() -> Option<BrokerError> {
    Some(BrokerError::Undecided("no answer".into()))
}

/// A worker with a record to commit, whose commit fails at one of its calls, and a coordinator that is away.
fn cut_off(fail: impl Fn(&State)) -> (TestWorker, Broker) {
    let (mut worker, broker) = running();
    broker.0.coordinator_is_away.set(true);
    fail(&broker.0);
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    broker.take_calls();
    (worker, broker)
}

fn away(broker: &Broker) -> Option<String> {
    broker.0.seen.borrow().away.last().cloned().flatten()
}

#[test]
fn a_transaction_that_is_not_decided_is_so_by_a_new_producer_before_anything_committed_is_read() {
    let fails: [fn(&State); 3] = [
        |state| state.offsets_error.replace(undecided()).map_or((), drop),
        |state| state.commit_error.replace(undecided()).map_or((), drop),
        |state| {
            state.commit_error.replace(Some(BrokerError::Retriable("not delivered".into())));
            state.abort_error.replace(undecided());
        },
    ];
    for fail in fails {
        let (mut worker, broker) = cut_off(fail);
        // An hour: nothing is accepted, nothing written, and the group is polled.
        for _ in 0..60 {
            broker.pass(60);
            worker.step().expect("waits");
        }
        assert_eq!(broker.take_calls(), []);
        assert!(away(&broker).is_some());
        broker.0.coordinator_is_away.set(false);
        round(&mut worker, &broker).expect("goes on");
        assert_eq!(broker.take_calls(), [Call::Assign(vec![0]), Call::Resume(0)]);
        assert_eq!(broker.0.seen.borrow().registrations, 2);
        broker.push([Next::Record(0, 7, "a", CREATED)]);
        round(&mut worker, &broker).expect("goes on");
        assert_eq!((broker.0.seen.borrow().records, away(&broker)), (1, None));
    }
}

#[test]
fn a_transaction_that_is_aborted_needs_no_new_producer_and_says_what_failed_until_one_succeeds() {
    let (mut worker, broker) = cut_off(|state| {
        state.commit_error.replace(Some(BrokerError::Retriable("not delivered".into())));
    });
    assert_eq!(away(&broker).as_deref(), Some("not delivered"));
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Assign(vec![0]), Call::Resume(0)]);
    assert_eq!(away(&broker).as_deref(), Some("not delivered"));
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!((broker.0.seen.borrow().registrations, away(&broker)), (1, None));
}

#[test]
fn a_group_that_moves_on_is_no_broker_that_is_away() {
    let (_, broker) = cut_off(|state| {
        state.offsets_error.replace(Some(BrokerError::Abortable("the group rebalances".into())));
    });
    assert_eq!(away(&broker), None);
}

#[test]
fn before_the_producer_is_registered_partitions_are_not_accepted_and_what_is_given_is_not_standby() {
    let (mut worker, broker) = worker(ProcessingGuarantee::ExactlyOnce);
    broker.0.coordinator_is_away.set(true);
    broker.push([Next::Assigned(vec![0])]);
    for _ in 0..60 {
        round(&mut worker, &broker).expect("waits");
    }
    assert_eq!(broker.take_calls(), [Call::Assign(vec![])], "the group is answered");
    assert_eq!(away(&broker).as_deref(), Some("no coordinator"));
    assert_eq!(broker.0.seen.borrow().states, [(0, TaskState::Restoring)]);
    broker.0.coordinator_is_away.set(false);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.take_calls()[..2], [Call::Assign(vec![0]), Call::Resume(0)]);
    assert_eq!(away(&broker), None);
}

#[test]
fn what_is_revoked_while_the_producer_is_not_registered_is_given_back_without_a_transaction() {
    let (mut worker, broker) = running();
    // Cut off for so long that the producer is registered anew.
    broker.0.connected.set(false);
    round(&mut worker, &broker).expect("waits");
    broker.pass(20);
    broker.0.connected.set(true);
    broker.0.coordinator_is_away.set(true);
    round(&mut worker, &broker).expect("waits");
    broker.take_calls();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Revoked(vec![0])]);
    round(&mut worker, &broker).expect("waits");
    assert_eq!(broker.take_calls(), [Call::Unassign(vec![0])]);
}

#[test]
fn a_member_that_lost_all_has_not_joined_until_it_is_given_something_anew_be_it_nothing() {
    let (mut worker, broker) = running();
    broker.push([Next::Lost(vec![0])]);
    worker.step().expect("goes on");
    assert_eq!(broker.0.seen.borrow().joined, [true, false]);
    broker.push([Next::Assigned(vec![])]);
    worker.step().expect("goes on");
    assert_eq!(broker.0.seen.borrow().joined, [true, false, true]);
}

#[test]
fn a_drain_does_not_wait_for_a_broker_that_is_away() {
    let (mut worker, broker) = cut_off(|state| {
        state.commit_error.replace(undecided());
    });
    worker.drain().expect("nothing is lost");
    assert_eq!(broker.take_calls(), []);
}

#[test]
fn no_time_passes_for_a_silent_partition_while_the_broker_is_out_of_reach() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::End(0)]);
    round(&mut worker, &broker).expect("goes on");
    broker.0.connected.set(false);
    for _ in 0..1000 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(!broker.take_calls().contains(&Call::Bundle("a".into())));
    broker.0.connected.set(true);
    for _ in 0..400 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(broker.take_calls().contains(&Call::Bundle("a".into())));
    let mut away: Vec<_> = broker.0.seen.borrow().away.iter().map(Option::is_some).collect();
    away.dedup();
    assert_eq!(away, [false, true, false]);
}

#[test]
fn a_broker_that_is_away_is_waited_for_and_lost_records_are_not() {
    let (mut worker, broker) = running();
    broker.push([Next::Error(BrokerError::Retriable("no broker".into()))]);
    round(&mut worker, &broker).expect("goes on");
    broker.push([Next::Error(BrokerError::RecordsLost("offset 7".into()))]);
    assert!(matches!(round(&mut worker, &broker), Err(WorkerError::Broker(BrokerError::RecordsLost(_)))));
}
