//! An events topic that is another one than before.

use super::*;
use crate::task::RestoreError;

fn another(was: &str, is: &str) -> RestoreError {
    RestoreError::AnotherTopic { was: was.into(), is: is.into() }
}

/// A worker with partition 0 running, whose state is of the topic `one`.
fn of_one() -> (TestWorker, Broker) {
    let (mut worker, broker) = running();
    broker.0.topic.set(Some("one"));
    broker.push([Next::Record(0, 7, "a", CREATED)]);
    round(&mut worker, &broker).expect("goes on");
    assert!(broker.take_calls().contains(&Call::Commit));
    (worker, broker)
}

#[test]
fn nothing_of_a_topic_that_took_the_place_of_another_is_committed() {
    let (mut worker, broker) = of_one();
    broker.0.topic.set(Some("two"));
    broker.push([Next::Record(0, 8, "b", CREATED)]);
    let ended = round(&mut worker, &broker);
    let is_another = |source: &RestoreError| *source == another("one", "two");
    assert!(matches!(&ended, Err(WorkerError::State { source, .. }) if is_another(source)), "{ended:?}");
    assert_eq!(broker.take_calls(), []);
}

#[test]
fn an_offset_that_another_topic_does_not_have_is_no_loss_of_records() {
    let (mut worker, broker) = of_one();
    broker.0.topic.set(Some("two"));
    broker.push([Next::Error(BrokerError::RecordsLost("out of range".into()))]);
    assert!(matches!(worker.step(), Err(WorkerError::State { .. })));
    let (mut worker, broker) = of_one();
    broker.push([Next::Error(BrokerError::RecordsLost("out of range".into()))]);
    assert!(matches!(worker.step(), Err(WorkerError::Broker(BrokerError::RecordsLost(_)))));
}

#[test]
fn a_state_of_another_topic_is_not_restored_be_its_offsets_deleted_with_it_or_not() {
    for offset in [None, Some(8)] {
        let (mut worker, broker) = of_one();
        broker.push([Next::Revoked(vec![0])]);
        worker.step().expect("goes on");
        *broker.0.committed.borrow_mut() = offset.map(|offset| (0, offset)).into_iter().collect();
        broker.0.topic.set(Some("two"));
        broker.push([Next::Assigned(vec![0])]);
        broker.take_calls();
        let ended = worker.step();
        let is_another = |source: &RestoreError| *source == another("one", "two");
        assert!(matches!(&ended, Err(WorkerError::Restore { source, .. }) if is_another(source)), "{ended:?}");
        assert!(!broker.take_calls().contains(&Call::Resume(0)));
    }
}

#[test]
fn a_topic_whose_id_is_learnt_late_is_compared_all_the_same() {
    let (mut worker, broker) = of_one();
    broker.push([Next::Revoked(vec![0]), Next::Assigned(vec![0])]);
    broker.0.topic.set(None);
    for _ in 0..3 {
        round(&mut worker, &broker).expect("goes on");
    }
    assert!(broker.take_calls().contains(&Call::Resume(0)));
    broker.0.topic.set(Some("two"));
    assert!(matches!(round(&mut worker, &broker), Err(WorkerError::State { .. })));
}
