//! A permission that is taken away while the service runs, and given back: it waits, says which, and loses nothing.

use std::thread;
use std::time::Duration;

use super::acls::{Permission, USERNAME, allow, needed, send_some, take, without};
use super::{deployment, sasl};
use crate::expected::each_once;
use crate::service::Service;
use crate::topics::{Judge, create_topics};
use crate::transport::secure::{Listener, broker};
use crate::wait::until_true;

/// How long a permission is away, after it was named.
const AWAY: Duration = Duration::from_secs(8);
/// Lines of log that this may take: pauses grow to ten seconds, and what repeats is said every five.
const LINES: usize = 80;

fn aborts(service: &Service) -> f64 {
    service.metric("duplex_aborts_total").expect("a counter")
}

#[test]
fn a_permission_that_is_taken_away_is_named_and_waited_for_without_haste_or_loss() {
    let deployment = deployment("revoked", broker().address(Listener::Sasl), sasl("PLAIN", "password"));
    create_topics(&deployment);
    deployment.start_ready("a", &[]).terminate_well();
    let user = [without(18)];
    needed(&deployment).iter().for_each(|permission| allow(permission, &user));
    let mut service = deployment.start_ready("a", &[(USERNAME, &user[0])]);
    let mut bundles = Judge::of(&deployment, "bundles");
    let mut sessions = send_some(&deployment, 70);
    bundles.read_until(sessions);
    let topic = |kind, operation| Permission::on_topic(&deployment, kind, operation);
    let taken = [
        topic("bundles", "Write"),
        topic("changelog", "Write"),
        topic("events", "Read"),
        Permission::on_group(&deployment),
    ];
    for (permission, seed) in taken.iter().zip(71..) {
        let Permission { operation, name, .. } = permission;
        let before = service.log().len();
        let said = |service: &Service| service.log()[before..].to_owned();
        take(permission, &user);
        sessions += send_some(&deployment, seed);
        until_true("the permission is named", || permission.is_named(&said(&service)));
        let aborts_before = aborts(&service);
        thread::sleep(AWAY);
        let (log, aborted) = (said(&service), aborts(&service) - aborts_before);
        let lines = log.lines().count();
        let probes = (service.status("/livez"), service.status("/readyz"));
        println!(
            "{operation} on {name} taken away | named, waits | {lines} lines, {aborted} aborts in {AWAY:?}, livez and readyz {probes:?}: {}",
            log.lines().find(|line| permission.is_named(line)).unwrap_or_default()
        );
        assert!(service.ended().is_none() && probes.0 == Some(200), "{log}");
        assert!(lines <= LINES && aborted <= 10.0, "{lines} lines, {aborted} aborts: {log}");
        allow(permission, &user);
        bundles.read_until(sessions);
        service.wait_until_ready();
        println!("{operation} on {name} given back | goes on, each once | {sessions} sessions");
    }
    service.terminate_well();
    assert_eq!(each_once(&Judge::all_of(&deployment, "bundles")).len(), sessions);
}
