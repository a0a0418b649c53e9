//! The permissions that README names: all of them suffice, and without any one of them the service says which.

use std::time::{Duration, Instant};

use super::{deployment, sasl};
use crate::expected;
use crate::service::Deployment;
use crate::topics::{Judge, create_topics, send_all};
use crate::transport::secure::{Listener, broker};
use crate::wait::PATIENCE;
use crate::{START, cluster, sessions_of};

/// The variable that makes a process another user.
pub const USERNAME: &str = "DUPLEX_KAFKA__PROPERTIES__SASL_USERNAME";

/// One operation on one resource.
#[derive(Clone, Debug)]
pub struct Permission {
    pub operation: &'static str,
    /// As the options of Kafka's tool name it.
    resource: &'static str,
    pub name: String,
}

impl Permission {
    pub fn on_topic(deployment: &Deployment, kind: &str, operation: &'static str) -> Self {
        Self { operation, resource: "--topic", name: deployment.topic(kind) }
    }

    pub fn on_group(deployment: &Deployment) -> Self {
        Self { operation: "Read", resource: "--group", name: deployment.name.clone() }
    }

    pub fn on_transactional_ids(deployment: &Deployment) -> Self {
        Self { operation: "Write", resource: "--transactional-id", name: format!("{}/", deployment.name) }
    }

    /// Whether a text names it.
    pub fn is_named(&self, text: &str) -> bool {
        let named = |line: &str| line.contains(&format!("needs {}", self.operation)) && line.contains(&self.name);
        text.lines().any(named)
    }
}

/// What README says the service needs.
pub fn needed(deployment: &Deployment) -> Vec<Permission> {
    let topic = |kind: &str, operation| Permission::on_topic(deployment, kind, operation);
    vec![
        topic("events", "Read"),
        topic("bundles", "Read"),
        topic("bundles", "Write"),
        topic("dead-letters", "Write"),
        topic("changelog", "Read"),
        topic("changelog", "Write"),
        topic("changelog", "DescribeConfigs"),
        Permission::on_group(deployment),
        Permission::on_transactional_ids(deployment),
    ]
}

pub fn allow(permission: &Permission, users: &[String]) {
    change("--add", permission, users);
}

/// Takes a permission back.
pub fn take(permission: &Permission, users: &[String]) {
    change("--remove", permission, users);
}

fn change(action: &str, permission: &Permission, users: &[String]) {
    let principals = users.iter().flat_map(|user| ["--allow-principal".into(), format!("User:{user}")]);
    let Permission { operation, resource, name } = permission;
    let mut arguments: Vec<String> =
        ["--bootstrap-server", &broker().cluster.bootstrap, action, "--operation", operation, resource, name]
            .map(Into::into)
            .into();
    if *resource == "--transactional-id" {
        arguments.extend(["--resource-pattern-type".into(), "prefixed".into()]);
    }
    arguments.extend(principals);
    arguments.extend((action == "--remove").then(|| "--force".into()));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    cluster::tool("org.apache.kafka.tools.AclCommand", &arguments);
}

/// A user that lacks one of the permissions, by its place in the list.
pub fn without(index: usize) -> String {
    format!("u{index}")
}

/// Sends sessions and a record that can't be read; how many sessions.
pub fn send_some(deployment: &Deployment, seed: u64) -> usize {
    let mut records = expected::traffic(seed, 10, START);
    let sessions = sessions_of(&records).len();
    let mut unreadable = records[0].clone();
    unreadable.value = Some(b"no JSON".to_vec());
    records.insert(0, unreadable);
    send_all(deployment, &records);
    sessions
}

/// The exit code of `check --connect` and what it says.
fn check(deployment: &Deployment, user: &str) -> (Option<i32>, String) {
    let output = deployment.command("check").arg("--connect").env(USERNAME, user).output().expect("check can be run");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
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
    for (index, permission) in needed.iter().enumerate() {
        let Permission { operation, name, .. } = permission;
        let user = without(index);
        let checked = check(&deployment, &user);
        let is_named = checked.0 == Some(78) && permission.is_named(&checked.1);
        failed |= !is_named;
        println!("check without {operation} on {name} | 78, named | {checked:?}");
        sessions += send_some(&deployment, 21 + index as u64);
        let mut service = deployment.start("a", &[(USERNAME, &user)]);
        let deadline = Instant::now() + PATIENCE / 2;
        let said = loop {
            let log = service.log();
            let said = permission.is_named(&log).then(|| log.clone());
            let over = service.ended().is_some() || Instant::now() > deadline;
            if said.is_some() || over {
                break said.ok_or(log);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        failed |= said.is_err();
        let line = said.as_ref().map_err(|log| log.lines().last().unwrap_or_default().to_owned());
        let line = line.map(|log| log.lines().find(|line| permission.is_named(line)).unwrap_or_default().to_owned());
        println!("run without {operation} on {name} | named | {line:?}");
    }
    let checked = check(&deployment, &all);
    println!("check with all | 0 | {checked:?}");
    assert!(checked.0 == Some(0) && checked.1.ends_with("permissions are fine\n"), "{checked:?}");
    let service = deployment.start_ready("a", &[(USERNAME, &all)]);
    bundles.read_until(sessions);
    service.terminate_well();
    assert!(!failed, "a missing permission was not named");
}
