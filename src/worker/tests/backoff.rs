//! Commits that fail again and again.

use super::*;

#[test]
fn commits_that_a_permission_is_missing_for_are_tried_again_ever_more_rarely_and_go_on_once_it_is_given() {
    let (mut worker, broker) = running();
    let mut tries = Vec::new();
    for second in 0..60 {
        // What was not committed comes again with the next try.
        *broker.0.commit_error.borrow_mut() = Some(BrokerError::Denied("needs Write on topic bundles".into()));
        broker.push([Next::Record(0, 7, "a", CREATED)]);
        round(&mut worker, &broker).expect("goes on");
        if broker.take_calls().contains(&Call::Abort) {
            tries.push(second);
        }
    }
    assert_eq!(broker.0.seen.borrow().commits, 0);
    assert!((5..=14).contains(&tries.len()), "{tries:?}");
    *broker.0.commit_error.borrow_mut() = None;
    for _ in 0..15 {
        broker.push([Next::Record(0, 7, "a", CREATED)]);
        round(&mut worker, &broker).expect("goes on");
    }
    assert_eq!(broker.0.seen.borrow().records, 1);
}

#[test]
fn a_record_refused_for_its_size_ends_nothing() {
    let (mut worker, broker) = running();
    *broker.0.commit_error.borrow_mut() = Some(BrokerError::TooLarge("topic bundles".into()));
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert!(broker.take_calls().contains(&Call::Abort));
    *broker.0.commit_error.borrow_mut() = None;
    for _ in 0..3 {
        // What was not committed comes again.
        broker.push([Next::Record(0, 7, "a", CREATED)]);
        round(&mut worker, &broker).expect("goes on");
    }
    assert_eq!(broker.0.seen.borrow().records, 1);
}
