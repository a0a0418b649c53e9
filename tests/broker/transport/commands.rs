//! What the commands beside `run` need: the permissions that README names suffice, and without one they say which.

use std::process::Command;

use super::acls::{Permission, USERNAME, allow, send_some, without};
use super::{deployment, sasl};
use crate::service::{BINARY, Deployment};
use crate::topics::{Judge, create_topics};
use crate::transport::secure::{Listener, broker};

/// Exit code, and all that it says.
type Said = (Option<i32>, String);

fn said(command: &mut Command) -> Said {
    let output = command.output().expect("the command can be run");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.code(), text)
}

fn as_user(deployment: &Deployment, user: &str, arguments: &[&str]) -> Said {
    let (subcommand, rest) = arguments.split_at(if arguments[0] == "dead-letters" { 2 } else { 1 });
    let mut command = Command::new(BINARY);
    said(command.args(subcommand).arg("--config").arg(deployment.config()).args(rest).env(USERNAME, user))
}

/// Gives each user all of these permissions but that of its own number; the last one has all.
fn share_out(permissions: &[Permission], first_user: usize) -> Vec<String> {
    let users: Vec<_> = (0..=permissions.len()).map(|lacking| without(first_user + lacking)).collect();
    for (index, permission) in permissions.iter().enumerate() {
        let others = users.iter().enumerate().filter(|(lacking, _)| *lacking != index);
        allow(permission, &others.map(|(_, user)| user.clone()).collect::<Vec<_>>());
    }
    users
}

#[test]
fn each_command_works_with_the_documented_permissions_and_without_one_names_it() {
    let deployment = deployment("commands", broker().address(Listener::Sasl), sasl("PLAIN", "password"));
    create_topics(&deployment);
    let service = deployment.start_ready("a", &[]);
    let sessions = send_some(&deployment, 50);
    Judge::of(&deployment, "bundles").read_until(sessions);
    Judge::of(&deployment, "dead-letters").read_until(1);
    service.terminate_well();
    let topic = |kind, operation| Permission::on_topic(&deployment, kind, operation);
    let (group, ids) = (Permission::on_group(&deployment), Permission::on_transactional_ids(&deployment));
    let redrive: &[&str] = &["dead-letters", "redrive", "--all", "--force"];
    let look = vec![topic("dead-letters", "Read"), group.clone()];
    let mut back = look.clone();
    back.extend([topic("dead-letters", "Write"), topic("events", "Write"), ids]);
    let report: &[&str] = &["report", "--topic", "-o", "-"];
    let loadgen: &[&str] = &["loadgen", "--sessions", "2", "--rate", "0"];
    let cases = [
        (vec![&["dead-letters", "list"][..], &["dead-letters", "show", "0:0"]], look),
        (vec![redrive], back),
        (vec![report], vec![topic("bundles", "Read"), group]),
        (vec![loadgen], vec![topic("events", "Write")]),
    ];
    let (mut failed, mut first_user) = (false, 0);
    for (commands, permissions) in cases {
        let users = share_out(&permissions, first_user);
        first_user += users.len();
        for (permission, user) in permissions.iter().zip(&users) {
            let Permission { operation, name, .. } = permission;
            let (code, text) = as_user(&deployment, user, commands[0]);
            failed |= code != Some(78) || !permission.is_named(&text);
            println!("{} without {operation} on {name} | 78, named | {code:?}: {text}", commands[0].join(" "));
        }
        for command in commands {
            let (code, text) = as_user(&deployment, users.last().expect("one has all"), command);
            // There may be no such dead letter: it is looked for all the same.
            failed |= code != Some(0) && !text.contains("is no dead letter");
            println!("{} with all | works | {code:?}: {}", command.join(" "), text.lines().next().unwrap_or_default());
        }
    }
    assert!(!failed, "see the table");
}

#[test]
fn topics_are_made_with_the_documented_permissions_and_one_that_may_not_be_made_is_named() {
    const TOPICS: [&str; 4] = ["events", "bundles", "dead-letters", "changelog"];
    let user = without(19);
    let mut failed = false;
    for lacking in TOPICS.map(Some).into_iter().chain([None]) {
        let name = format!("create-{}", lacking.unwrap_or("all"));
        let deployment = deployment(&name, broker().address(Listener::Sasl), sasl("PLAIN", "password"));
        for permission in super::acls::needed(&deployment) {
            allow(&permission, std::slice::from_ref(&user));
        }
        for kind in TOPICS.into_iter().filter(|kind| Some(*kind) != lacking) {
            allow(&Permission::on_topic(&deployment, kind, "Create"), std::slice::from_ref(&user));
        }
        match lacking {
            Some(kind) => {
                let (status, log) = deployment.start("a", &[(USERNAME, &user)]).wait_until_ended();
                let is_named = Permission::on_topic(&deployment, kind, "Create").is_named(&log);
                failed |= status.code() != Some(78) || !is_named;
                let line = log.lines().last().unwrap_or_default();
                println!("run without Create on {kind} | 78, named | {:?}: {line}", status.code());
            }
            None => {
                deployment.start_ready("a", &[(USERNAME, &user)]).terminate_well();
                println!("run with Create on all | works | works");
            }
        }
    }
    assert!(!failed, "see the table");
}
