//! Which offset is committed where the last record is not the last thing on a partition.

use super::*;

#[test]
fn a_position_past_the_last_record_is_committed_once() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::End(0)]);
    round(&mut worker, &broker).expect("goes on");
    assert!(broker.take_calls().contains(&Call::SendOffsets(vec![(0, 8)])));
    // Its producer's marker, and then a transaction that was aborted.
    for position in [9, 12] {
        *broker.0.positions.borrow_mut() = vec![(0, position)];
        round(&mut worker, &broker).expect("goes on");
        let expected = [Call::Begin, Call::Changelog(0), Call::SendOffsets(vec![(0, position)]), Call::Commit];
        assert_eq!(broker.take_calls(), expected);
        round(&mut worker, &broker).expect("goes on");
        assert_eq!(broker.take_calls(), []);
    }
    // A drain does not leave it out either.
    *broker.0.positions.borrow_mut() = vec![(0, 14), (3, 99)];
    worker.drain().expect("ends well");
    assert!(broker.take_calls().contains(&Call::SendOffsets(vec![(0, 14)])));
}

#[test]
fn nothing_to_say_is_no_transaction() {
    let (mut worker, broker) = running();
    for _ in 0..3 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert_eq!(broker.take_calls(), []);
}

#[test]
fn a_record_delivered_twice_counts_once() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert_eq!(broker.0.seen.borrow().records, 1);
}
