//! Faults of the processes themselves; one broker.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::predecessor::leave_a_transaction_open;
use super::scene::{Fault, PARTITIONS, Scene};
use super::size::Size;
use crate::cluster;
use crate::wait::{until, until_true};

/// How soon readers go on once the successor of a process with an open transaction starts.
const READERS_GO_ON: Duration = Duration::from_secs(5);

#[test]
fn kill_nine_of_a_process_again_and_again() {
    let row = Fault::new("kill -9", cluster::shared()).run(|scene| {
        let kills = Size::chosen().kills;
        for _ in 0..kills {
            scene.see(20);
            scene.let_pass(Duration::from_millis(1500));
            kill_any(scene);
        }
        kills
    });
    row.assert_exactly_once();
}

/// The checker can tell: the same kills without transactions double bundles, and still lose none.
#[test]
fn at_least_once_doubles_bundles_and_loses_none() {
    const KILLS: usize = 40;
    let mut fault = Fault::new("kill -9, at least once", cluster::shared());
    fault.settings = &[("DUPLEX_WORKER__PROCESSING_GUARANTEE", "at_least_once")];
    // Records wait before they are sent, so that a kill between a bundle and the commit of its offset is likely.
    fault.properties.push(("linger.ms", "50"));
    let row = fault.run(|scene| {
        for kills in 0..KILLS {
            scene.see(20);
            let sessions: BTreeSet<_> = scene.judge.records.iter().map(|bundle| &bundle.key).collect();
            if kills >= 3 && sessions.len() < scene.judge.records.len() {
                return kills;
            }
            scene.let_pass(Duration::from_millis(300));
            kill_any(scene);
        }
        KILLS
    });
    assert!(row.verdict.twice > 0, "{KILLS} kills doubled no bundle");
    row.assert_nothing_left();
}

pub fn kill_any(scene: &mut Scene<'_>) {
    let instance = scene.any_instance();
    scene.fleet.kill(&instance);
    scene.fleet.start(&instance);
}

#[test]
fn a_process_that_was_stopped_for_too_long_can_not_commit() {
    const MAX_POLL: Duration = Duration::from_secs(4);
    let mut fault = Fault::new("SIGSTOP, SIGCONT", cluster::shared());
    // The broker gives a stopped process' transaction up before its partitions are with others for long.
    fault.properties.extend([("max.poll.interval.ms", "4000"), ("transaction.timeout.ms", "4000")]);
    let row = fault.run(|scene| {
        let zombies = Size::chosen().zombies;
        let (mut refused, mut lost) = (0, 0);
        for nth in 0..zombies {
            scene.fleet.wait_until_all_run();
            scene.see(20);
            let instance = scene.any_instance();
            let stopped = Instant::now();
            let in_transaction = nth % 2 == 0;
            if in_transaction {
                scene.stop_in_a_transaction(&instance);
            } else {
                scene.let_pass(Duration::from_millis(300));
                scene.fleet.stop(&instance);
            }
            // The others run everything: what it still has to commit is theirs.
            scene.fleet.wait_until_all_run();
            until_true("max.poll.interval.ms has passed", || stopped.elapsed() > MAX_POLL);
            scene.see(20);
            let lines = scene.fleet.log(&instance).lines().count();
            scene.fleet.go_on(&instance);
            let by_a_commit = until("the zombie finds out", || {
                let log = scene.fleet.log(&instance);
                log.lines().skip(lines).find_map(|line| match line {
                    _ if line.contains("commit failed") || line.contains("worker ended") => Some(true),
                    _ if line.contains("partitions lost") => Some(false),
                    _ => None,
                })
            });
            assert!(by_a_commit || !in_transaction, "a commit was under way and did not fail");
            refused += usize::from(by_a_commit);
            lost += usize::from(!by_a_commit);
        }
        scene.notes.push(format!("{refused} commits failed, {lost} found their partitions lost"));
        zombies
    });
    row.assert_exactly_once();
}

#[test]
fn processes_that_join_and_leave_all_the_time_and_rebalance_eagerly() {
    join_and_leave("joins and leaves, eager", "range");
}

#[test]
fn processes_that_join_and_leave_all_the_time_and_rebalance_cooperatively() {
    join_and_leave("joins and leaves, cooperative", "cooperative-sticky");
}

fn join_and_leave(name: &'static str, strategy: &'static str) {
    let mut fault = Fault::new(name, cluster::shared());
    fault.properties.push(("partition.assignment.strategy", strategy));
    let row = fault.run(|scene| {
        let joins = Size::chosen().joins;
        for nth in 0..joins {
            let leaves = scene.any_instance();
            let joins = format!("joined-{nth}");
            scene.fleet.start(&joins);
            until_true("the new process runs partitions", || {
                scene.fleet.tend();
                scene.fleet.running(&joins) > 0
            });
            scene.let_pass(Duration::from_millis(300));
            scene.fleet.leave(&leaves);
            scene.let_pass(Duration::from_millis(300));
        }
        2 * joins
    });
    row.assert_exactly_once();
}

#[test]
fn a_predecessors_open_transaction_holds_readers_up_for_less_than_five_seconds() {
    let row = Fault::new("predecessor's open transaction", cluster::shared()).run(|scene| {
        let predecessors = Size::chosen().predecessors;
        let mut longest = Duration::ZERO;
        for nth in 0..predecessors {
            scene.see(20);
            let instance = scene.any_instance();
            let took = if nth % 2 == 0 { killed(scene, &instance) } else { left_open(scene, &instance) };
            assert!(took < READERS_GO_ON, "readers went on after {took:?}");
            longest = longest.max(took);
            scene.fleet.wait_until_all_run();
        }
        scene.notes.push(format!("readers go on within {} ms", longest.as_millis()));
        predecessors
    });
    row.assert_exactly_once();
}

/// A process is killed in a transaction. From its successor's start, the time until no reader stands where it stood.
fn killed(scene: &mut Scene<'_>, instance: &str) -> Duration {
    let blocked = scene.stop_in_a_transaction(instance);
    scene.fleet.kill(instance);
    let began = Instant::now();
    scene.fleet.start(instance);
    until("no reader waits for the transaction", || {
        let now = scene.ends.blocked().ok()?;
        blocked.is_disjoint(&now).then(|| began.elapsed())
    })
}

/// A process has left, and somebody by its name has a transaction open on every partition of the bundles. From the
/// successor's start, the time until a reader has a new record of each.
fn left_open(scene: &mut Scene<'_>, instance: &str) -> Duration {
    scene.fleet.leave(instance);
    let predecessor = leave_a_transaction_open(scene.deployment, instance);
    // The others go on, behind it: there is something in each partition that a reader waits for.
    scene.judge.read();
    let partitions = usize::try_from(PARTITIONS).expect("a count");
    let bundles = scene.deployment.topic("bundles");
    until_true("every partition has records behind the open transaction", || {
        let hidden = scene.ends.hidden(&bundles).unwrap_or_default();
        hidden.len() == partitions && hidden.values().all(|records| *records > 2)
    });
    let before = scene.judge.read();
    let began = Instant::now();
    scene.fleet.start(instance);
    let took = until("readers of every partition go on", || {
        scene.judge.read();
        let new: BTreeSet<_> = scene.judge.records[before..].iter().map(|bundle| bundle.partition).collect();
        (new.len() == partitions).then(|| began.elapsed())
    });
    drop(predecessor);
    took
}
