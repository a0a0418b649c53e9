//! Faults of the brokers and of the way to them.

use std::time::Duration;

use super::brokers::three;
use super::proxy::Proxy;
use super::scene::Fault;
use super::size::Size;
use crate::cluster::{self, Cluster};

/// Longer than a member may be silent.
const SILENCE: Duration = Duration::from_secs(5);

#[test]
fn brokers_that_are_killed_and_come_back() {
    let brokers = three();
    let mut fault = Fault::new("kill -9 of a broker", brokers.bootstrap());
    fault.replicas = 3;
    let row = fault.run(|scene| {
        let kills = Size::chosen().broker_kills;
        let mut led = 0;
        for _ in 0..kills {
            scene.see(20);
            scene.let_pass(Duration::from_millis(1000));
            // A broker that came back leads nothing yet, so it is not always the same.
            let (leads, broker) = brokers.leads_most(&scene.deployment.name);
            led += leads;
            brokers.kill(broker);
            // The two that are left carry on.
            scene.see(20);
            brokers.restart(broker);
        }
        scene.notes.push(format!("{led} partitions had to find new leaders"));
        kills
    });
    row.assert_exactly_once();
}

#[test]
fn coordinators_that_are_lost() {
    let brokers = three();
    let mut fault = Fault::new("coordinator lost", brokers.bootstrap());
    fault.replicas = 3;
    let row = fault.run(|scene| {
        let losses = Size::chosen().coordinator_losses;
        let name = scene.deployment.name.clone();
        let mut of_transactions = 0;
        for nth in 0..losses {
            scene.see(20);
            scene.let_pass(Duration::from_millis(1000));
            let broker = brokers.coordinator_of_group(&name);
            let ids = scene.fleet.instances().into_iter().map(|instance| format!("{name}/{instance}/0"));
            of_transactions += ids.filter(|id| brokers.coordinator_of_transactions(id) == broker).count();
            // Both ways to lose one: without a word, and handed over in good order.
            if nth % 2 == 0 {
                brokers.kill(broker)
            } else {
                brokers.stop(broker)
            }
            scene.see(20);
            brokers.restart(broker);
        }
        scene.notes.push(format!("the group's, and {of_transactions} times a process' transactions'"));
        losses
    });
    row.assert_exactly_once();
}

#[test]
fn leaders_that_move() {
    let brokers = three();
    let mut fault = Fault::new("leaders moved", brokers.bootstrap());
    fault.replicas = 3;
    let row = fault.run(|scene| {
        let moves = Size::chosen().leader_moves;
        let mut moved = 0;
        for _ in 0..moves {
            scene.see(20);
            // Of the service's own topics, and of the coordinators'.
            moved += brokers.move_leaders(&[&scene.deployment.name, "__"], scene.deployment.files.path());
        }
        scene.see(20);
        assert!(moved > 0, "no leader moved");
        scene.notes.push(format!("{moved} partitions"));
        moves
    });
    row.assert_exactly_once();
}

#[test]
fn connections_that_are_cut() {
    let cluster = Cluster::own(cluster::free_port(), 1);
    let proxy = Proxy::before(cluster.port);
    let mut fault = Fault::new("connections cut", &cluster.bootstrap);
    fault.via = Some(proxy.bootstrap.clone());
    let row = fault.run(|scene| {
        let Size { cuts, silences, .. } = Size::chosen();
        let mut connections = 0;
        for nth in 0..cuts {
            scene.see(5);
            scene.let_pass(Duration::from_millis(1000));
            connections += proxy.cut();
            if nth < 2 * silences {
                scene.see(5);
                if nth % 2 == 0 { proxy.down_for(SILENCE) } else { proxy.silent_for(SILENCE) }
            }
        }
        assert!(connections >= cuts, "{connections} connections were cut");
        scene.notes.push(format!(
            "{connections} connections in {cuts} cuts, {silences} times none for 5 s, {silences} times silent for 5 s"
        ));
        cuts + 2 * silences
    });
    row.assert_exactly_once();
}
