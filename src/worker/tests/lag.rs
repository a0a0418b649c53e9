//! What a worker tells of its distance to the end of a partition.

use super::*;

/// The last lag that was told, a second later.
fn lag(worker: &mut TestWorker, broker: &Broker) -> Option<Lag> {
    round(worker, broker).expect("goes on");
    broker.0.seen.borrow_mut().lags.drain(..).next_back()
}

#[test]
fn lag_is_told_once_the_end_is_known_and_is_nothing_at_the_end() {
    let (mut worker, broker) = running();
    assert_eq!(lag(&mut worker, &broker), None);
    broker.0.end.set(Some(Offset(9)));
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 9, seconds: 0.0 }));
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 9, seconds: 1.0 }));
    // Its timestamp is the clock's when the test began, four seconds before.
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 1, seconds: 5.0 }));
    // The end that the client knows is as old as its statistics, and past the last record is a transaction's marker.
    broker.push([Next::End(0)]);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 0, seconds: 0.0 }));
}

#[test]
fn a_partition_given_anew_knows_nothing_of_the_time_before() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::End(0)]);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 0, seconds: 0.0 }));
    broker.push([Next::Revoked(vec![0]), Next::Assigned(vec![0])]);
    broker.0.end.set(Some(Offset(9)));
    round(&mut worker, &broker).expect("goes on");
    broker.0.seen.borrow_mut().lags.clear();
    broker.pass(600);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 1, seconds: 0.0 }));
}
