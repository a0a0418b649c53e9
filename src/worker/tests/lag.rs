//! What a worker tells of its distance to the end of a partition.

use super::*;

/// The last lag that was told, a second later.
fn lag(worker: &mut TestWorker, broker: &Broker) -> Option<Lag> {
    round(worker, broker).expect("goes on");
    broker.0.seen.borrow_mut().lags.drain(..).next_back()
}

fn ends(stable: i64, high: i64) -> Option<Ends> {
    Some(Ends { stable: Offset(stable), high: Offset(high) })
}

#[test]
fn lag_is_told_once_the_end_is_known_and_is_nothing_at_the_end() {
    let (mut worker, broker) = running();
    assert_eq!(lag(&mut worker, &broker), None);
    broker.0.ends.set(ends(9, 9));
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 9, undecided: 0, seconds: 0.0 }));
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 9, undecided: 0, seconds: 1.0 }));
    // Its timestamp is the clock's when the test began, four seconds before.
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 1, undecided: 0, seconds: 5.0 }));
    // The end that the client knows is as old as its statistics, and past the last record is a transaction's marker.
    broker.push([Next::End(0)]);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 0, undecided: 0, seconds: 0.0 }));
}

#[test]
fn a_partition_given_anew_knows_nothing_of_the_time_before() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::End(0)]);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 0, undecided: 0, seconds: 0.0 }));
    broker.push([Next::Revoked(vec![0]), Next::Assigned(vec![0])]);
    broker.0.ends.set(ends(9, 9));
    round(&mut worker, &broker).expect("goes on");
    broker.0.seen.borrow_mut().lags.clear();
    broker.pass(600);
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 1, undecided: 0, seconds: 0.0 }));
}

#[test]
fn what_another_producers_open_transaction_hides_is_lag_and_no_silence() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::End(0)]);
    broker.0.ends.set(ends(8, 9));
    let seconds: Vec<_> = (0..3).map(|_| lag(&mut worker, &broker).expect("the ends are known")).collect();
    assert!(seconds.iter().all(|lag| (lag.records, lag.undecided) == (1, 1)), "{seconds:?}");
    for _ in 0..1000 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(!broker.take_calls().contains(&Call::Bundle("a".into())));
    broker.0.ends.set(ends(9, 9));
    for _ in 0..400 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(broker.take_calls().contains(&Call::Bundle("a".into())));
    assert_eq!(lag(&mut worker, &broker), Some(Lag { records: 0, undecided: 0, seconds: 0.0 }));
}
