//! Passwords, keys and certificates that change: a restart takes the new ones up, and loses nothing.

use std::fs;

use super::acls::send_some;
use super::{Properties, deployment, file, tls};
use crate::expected::each_once;
use crate::topics::{Judge, create_topics};
use crate::transport::secure::{LATER, Listener, PASSWORD, broker};
use crate::wait::until_true;

const NEXT_PASSWORD: &str = "the-next-password";

#[test]
fn a_password_that_was_changed_is_taken_up_by_a_restart_and_the_old_one_is_named() {
    let mut properties: Properties = super::sasl("SCRAM-SHA-512", "password");
    properties.retain(|(name, _)| !matches!(*name, "sasl.username" | "sasl.password_file"));
    let secret = broker().file("rotated-password");
    fs::write(&secret, PASSWORD).expect("a file can be written");
    properties.push(("sasl.username", LATER.into()));
    properties.push(("sasl.password_file", secret.display().to_string()));
    broker().set_scram_password(LATER, PASSWORD);
    let deployment = deployment("password", broker().address(Listener::Sasl), properties);
    create_topics(&deployment);
    let service = deployment.start_ready("a", &[]);
    let mut bundles = Judge::of(&deployment, "bundles");
    let mut sessions = send_some(&deployment, 90);
    bundles.read_until(sessions);
    // Connections that stand stay: the broker asks again only of new ones.
    broker().set_scram_password(LATER, NEXT_PASSWORD);
    fs::write(&secret, NEXT_PASSWORD).expect("a file can be written");
    sessions += send_some(&deployment, 91);
    bundles.read_until(sessions);
    service.terminate_well();
    sessions += send_some(&deployment, 92);
    let service = deployment.start_ready("a", &[]);
    bundles.read_until(sessions);
    service.terminate_well();
    println!("password changed, restart | each bundle once | {} bundles", sessions);
    assert_eq!(each_once(&Judge::all_of(&deployment, "bundles")).len(), sessions);
    // A process that comes up before its file was changed says so, and goes on with a restart.
    fs::write(&secret, PASSWORD).expect("a file can be written");
    let service = deployment.start("a", &[]);
    until_true("the old password is refused", || service.log().contains("mend sasl.username and sasl.password"));
    service.terminate_well();
}

#[test]
fn a_certificate_and_a_ca_that_were_changed_are_taken_up_by_a_restart() {
    let copy = |from: &str, to: &str| {
        fs::copy(broker().file(from), broker().file(to)).expect("a file can be copied");
    };
    let mut properties = tls("rotated-ca.pem");
    properties.extend([("ssl.certificate.location", file("rotated.crt")), ("ssl.key.location", file("rotated.key"))]);
    copy("ca.pem", "rotated-ca.pem");
    copy("client.crt", "rotated.crt");
    copy("client.key", "rotated.key");
    let deployment = deployment("certificate", broker().address(Listener::Rotated), properties);
    create_topics(&deployment);
    let service = deployment.start_ready("a", &[]);
    let mut bundles = Judge::of(&deployment, "bundles");
    let mut sessions = send_some(&deployment, 95);
    bundles.read_until(sessions);
    // Both sides get certificates of another CA. The broker takes its new files up by itself.
    broker().rotate();
    sessions += send_some(&deployment, 96);
    bundles.read_until(sessions);
    println!("broker's certificate changed while it runs | standing connections go on | {sessions} bundles");
    for (from, to) in
        [("another-ca.pem", "rotated-ca.pem"), ("next-client.crt", "rotated.crt"), ("next-client.key", "rotated.key")]
    {
        copy(from, to);
    }
    service.terminate_well();
    sessions += send_some(&deployment, 97);
    let service = deployment.start_ready("a", &[]);
    bundles.read_until(sessions);
    service.terminate_well();
    println!("CA and certificates of both sides changed, restart | each bundle once | {sessions} bundles");
    assert_eq!(each_once(&Judge::all_of(&deployment, "bundles")).len(), sessions);
}
