//! What a restore says while it lasts, and when it is given up.

use super::*;

/// A worker that was given partition 0, whose first reads of the changelog answer so.
fn restoring(reads: impl IntoIterator<Item = Read>) -> (TestWorker, Broker) {
    let (worker, broker) = worker(ProcessingGuarantee::ExactlyOnce);
    broker.push([Next::Assigned(vec![0])]);
    broker.0.restores.borrow_mut().extend(reads);
    (worker, broker)
}

/// Rounds of a minute each until the worker ends; how many went well, and why it ended.
fn minutes(worker: &mut TestWorker, broker: &Broker, most: usize) -> (usize, Option<String>) {
    for went in 0..most {
        broker.pass(60);
        if let Err(e) = worker.step() {
            return (went, Some(e.to_string()));
        }
    }
    (most, None)
}

fn away() -> Read {
    Read::Error(BrokerError::Retriable("no broker".into()))
}

#[test]
fn what_is_left_is_told_until_the_task_runs() {
    let (mut worker, broker) = restoring([Read::Nothing(30), Read::Nothing(30), Read::Nothing(4)]);
    for _ in 0..4 {
        worker.step().expect("goes on");
    }
    let seen = broker.0.seen.borrow();
    assert_eq!(seen.left, [Some(30), Some(30), Some(4)]);
    assert_eq!(seen.states, [(0, TaskState::Restoring), (0, TaskState::Running)]);
}

#[test]
fn a_restore_that_reads_nothing_for_the_timeout_ends_the_worker_and_says_why() {
    let (mut worker, broker) = restoring((0..9).map(|_| Read::Nothing(7)));
    let (went, error) = minutes(&mut worker, &broker, 9);
    assert_eq!(went, 2, "accepted after one minute, two minutes at most from then");
    let error = error.expect("it ends");
    assert!(
        error.starts_with("restore of partition 0 has read nothing for 120s although the broker answers"),
        "{error}"
    );
    assert!(error.contains("a transaction on the changelog is left open"), "{error}");
    assert!(!broker.take_calls().contains(&Call::Resume(0)));
}

#[test]
fn every_record_gives_a_restore_its_whole_time_again() {
    let slow = (0..9).flat_map(|_| [Read::Nothing(7), Read::Record]);
    let (mut worker, broker) = restoring(slow.chain((0..9).map(|_| Read::Nothing(7))));
    let (went, error) = minutes(&mut worker, &broker, 30);
    assert_eq!((went, error.is_some()), (18 + 1, true));
}

#[test]
fn a_broker_that_is_away_is_waited_for_and_the_time_it_is_away_is_not_counted() {
    let reads = [Read::Nothing(7), Read::Nothing(7)].into_iter().chain((0..600).map(|_| away()));
    let (mut worker, broker) = restoring(reads.chain([Read::Nothing(7), Read::Record]));
    assert_eq!(minutes(&mut worker, &broker, 605), (605, None));
    assert!(broker.take_calls().contains(&Call::Resume(0)));
    // The whole time again once it is back, and no more than that.
    let (mut worker, broker) = restoring((0..600).map(|_| away()).chain((0..9).map(|_| Read::Nothing(7))));
    let (went, error) = minutes(&mut worker, &broker, 700);
    assert_eq!((went, error.is_some()), (601, true));
}

#[test]
fn changelogs_that_are_away_do_not_keep_the_others_from_being_read() {
    let (mut worker, broker) = worker(ProcessingGuarantee::ExactlyOnce);
    broker.0.away.replace(vec![0, 1]);
    broker.push([Next::Assigned(vec![0, 1, 2])]);
    for _ in 0..4 {
        worker.step().expect("goes on");
    }
    assert!(broker.0.seen.borrow().states.contains(&(2, TaskState::Running)));
}

#[test]
fn a_changelog_that_lacks_the_partition_ends_the_worker() {
    let (mut worker, _broker) = restoring([Read::Error(BrokerError::Misconfigured("too few partitions".into()))]);
    assert!(matches!(worker.step(), Err(WorkerError::Broker(BrokerError::Misconfigured(_)))));
}

#[test]
fn state_and_offset_of_different_times_are_read_again() {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Revoked(vec![0])]);
    worker.step().expect("goes on");
    let committed = std::mem::take(&mut *broker.0.committed.borrow_mut());
    broker.0.committed_meanwhile.set(committed.into_iter().next());
    broker.take_calls();
    broker.push([Next::Assigned(vec![0])]);
    worker.step().expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Assign(vec![0]), Call::Unassign(vec![0])]);
    worker.step().expect("goes on");
    assert_eq!(broker.take_calls(), [Call::Assign(vec![0]), Call::Resume(0)]);
}

/// A worker that was given partition 0 again, whose state in the changelog is of a commit, while the group's offset is
/// `offset`.
fn apart(offset: Option<i64>) -> (TestWorker, Broker) {
    let (mut worker, broker) = running();
    broker.push([Next::Record(0, 7, "a", CREATED), Next::Revoked(vec![0])]);
    worker.step().expect("goes on");
    *broker.0.committed.borrow_mut() = offset.map(|offset| (0, offset)).into_iter().collect();
    broker.push([Next::Assigned(vec![0])]);
    worker.step().expect("goes on");
    broker.take_calls();
    (worker, broker)
}

#[test]
fn state_and_offset_of_two_commits_are_read_again_until_they_are_of_one() {
    // As a coordinator answers that has not replicated the end of a transaction yet.
    let (mut worker, broker) = apart(Some(3));
    assert_eq!(minutes(&mut worker, &broker, 1), (1, None));
    broker.0.committed.borrow_mut().insert(0, 8);
    assert_eq!(minutes(&mut worker, &broker, 1), (1, None));
    assert!(broker.take_calls().contains(&Call::Resume(0)));
}

#[test]
fn state_and_offset_that_stay_of_two_commits_are_not_gone_on_with() {
    for offset in [None, Some(3), Some(9)] {
        let (mut worker, broker) = apart(offset);
        let (went, error) = minutes(&mut worker, &broker, 9);
        assert_eq!(went, 1, "{offset:?}: two minutes at most");
        assert!(error.is_some_and(|e| e.starts_with("partition 0 can't be restored: ")), "{offset:?}");
        assert!(!broker.take_calls().contains(&Call::Resume(0)), "{offset:?}");
    }
}

/// The key of a session that has ended long ago, whose tombstone the leader lacks.
fn gone() -> Entry {
    (0, b"Sgone".to_vec(), Some(b"head".to_vec()))
}

#[test]
fn a_leader_that_lacks_tombstones_is_waited_out_and_no_longer_than_the_timeout() {
    let (mut worker, broker) = apart(Some(8));
    broker.0.changelog.borrow_mut().insert(0, gone());
    broker.push([Next::Revoked(vec![0]), Next::Assigned(vec![0])]);
    worker.step().expect("goes on");
    assert_eq!(minutes(&mut worker, &broker, 1), (1, None));
    assert!(!broker.take_calls().contains(&Call::Resume(0)));
    // Another replica leads.
    broker.0.changelog.borrow_mut().remove(0);
    assert_eq!(minutes(&mut worker, &broker, 1), (1, None));
    assert!(broker.take_calls().contains(&Call::Resume(0)));

    broker.0.changelog.borrow_mut().insert(0, gone());
    broker.push([Next::Revoked(vec![0]), Next::Assigned(vec![0])]);
    worker.step().expect("goes on");
    let (went, error) = minutes(&mut worker, &broker, 9);
    assert_eq!(went, 2, "given in the first, two minutes at most from then");
    assert!(error.is_some_and(|e| e.contains("its leader lacks tombstones")));
}
