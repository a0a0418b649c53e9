//! The permissions that README names: all of them suffice, and without any one of them the service says which.

use std::time::{Duration, Instant};

use super::{deployment, sasl};
use crate::expected;
use crate::service::Deployment;
use crate::topics::{Judge, create_topics, send_all};
use crate::transport::secure::{Listener, broker};
use crate::wait::PATIENCE;
use crate::{START, cluster, sessions_of};

/// One operation on one resource.
struct Permission {
    operation: &'static str,
    /// As the options of Kafka's tool name it.
    resource: &'static str,
    name: String,
}

fn needed(deployment: &Deployment) -> Vec<Permission> {
    let on = |resource, name: String, operation| Permission { operation, resource, name };
    let topic = |kind: &str, operation| on("--topic", deployment.topic(kind), operation);
    vec![
        topic("events", "Read"),
        topic("bundles", "Read"),
        topic("bundles", "Write"),
        topic("dead-letters", "Write"),
        topic("changelog", "Read"),
        topic("changelog", "Write"),
        topic("changelog", "DescribeConfigs"),
        on("--group", deployment.name.clone(), "Read"),
        on("--transactional-id", format!("{}-", deployment.name), "Write"),
    ]
}

fn allow(permission: &Permission, users: &[String]) {
    let principals = users.iter().flat_map(|user| ["--allow-principal".into(), format!("User:{user}")]);
    let Permission { operation, resource, name } = permission;
    let mut arguments: Vec<String> =
        ["--bootstrap-server", &broker().cluster.bootstrap, "--add", "--operation", operation, resource, name]
            .map(Into::into)
            .into();
    if *resource == "--transactional-id" {
        arguments.extend(["--resource-pattern-type".into(), "prefixed".into()]);
    }
    arguments.extend(principals);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    cluster::tool("org.apache.kafka.tools.AclCommand", &arguments);
}

/// A user that lacks one of the permissions, by its place in the list.
fn without(index: usize) -> String {
    format!("u{index}")
}

/// Sends sessions and a record that can't be read; how many sessions.
fn send_some(deployment: &Deployment, seed: u64) -> usize {
    let mut records = expected::traffic(seed, 10, START);
    let sessions = sessions_of(&records).len();
    let mut unreadable = records[0].clone();
    unreadable.value = Some(b"no JSON".to_vec());
    records.insert(0, unreadable);
    send_all(deployment, &records);
    sessions
}

#[test]
fn the_documented_permissions_suffice_and_without_one_the_service_names_it() {
    let deployment = deployment("acls", broker().address(Listener::Sasl), sasl("PLAIN", "password"));
    create_topics(&deployment);
    // The changelog of a service that has run holds something to restore.
    let service = deployment.start_ready("a", &[]);
    let mut bundles = Judge::of(&deployment, "bundles");
    let mut sessions = send_some(&deployment, 20);
    bundles.read_until(sessions);
    service.terminate_well();
    let needed = needed(&deployment);
    let all = without(needed.len());
    for (index, permission) in needed.iter().enumerate() {
        let users: Vec<_> = (0..=needed.len()).filter(|lacking| *lacking != index).map(without).collect();
        allow(permission, &users);
    }
    let mut failed = false;
    for (index, Permission { operation, name, .. }) in needed.iter().enumerate() {
        let user = without(index);
        sessions += send_some(&deployment, 21 + index as u64);
        let mut service = deployment.start("a", &[("DUPLEX_KAFKA__PROPERTIES__SASL_USERNAME", &user)]);
        let deadline = Instant::now() + PATIENCE / 2;
        let said = loop {
            let log = service.log();
            let said =
                log.lines().find(|line| line.contains(&format!("needs {operation}")) && line.contains(name.as_str()));
            let over = service.ended().is_some() || Instant::now() > deadline;
            if said.is_some() || over {
                break said.map(str::to_owned).ok_or(log.clone());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        failed |= said.is_err();
        println!("without {operation} on {name} | named | {said:?}");
    }
    let service = deployment.start_ready("a", &[("DUPLEX_KAFKA__PROPERTIES__SASL_USERNAME", &all)]);
    bundles.read_until(sessions);
    service.terminate_well();
    assert!(!failed, "a missing permission was not named");
}
