//! TLS, SASL and ACLs against a broker that asks for them: what works, and what is said where it does not.

mod acls;
mod commands;
mod oauth;
mod revoked;
mod rotation;
mod secure;

use std::io::Read as _;
use std::net::TcpListener;
use std::thread;

use crate::expected::{self, each_once};
use crate::service::{Deployment, Shape};
use crate::topics::{Judge, create_topics, send_all};
use crate::wait::until_true;
use crate::{START, sessions_of};
use secure::{LATECOMER, Listener, PASSWORD, USER, broker};

type Properties = Vec<(&'static str, String)>;

/// What becomes of a client with these properties at this listener.
struct Case {
    name: &'static str,
    listener: Listener,
    properties: Properties,
    expected: Expected,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    /// Each session has its bundle.
    Works,
    /// Waits for Kafka and says this.
    Says(&'static str),
}
use Expected::{Says, Works};

fn file(name: &str) -> String {
    broker().file(name).display().to_string()
}

fn tls(ca: &str) -> Properties {
    vec![("security.protocol", "ssl".into()), ("ssl.ca.location", file(ca))]
}

fn sasl(mechanism: &str, password: &str) -> Properties {
    vec![
        ("security.protocol", "sasl_ssl".into()),
        ("ssl.ca.location", file("ca.pem")),
        ("sasl.mechanism", mechanism.into()),
        ("sasl.username", USER.into()),
        ("sasl.password_file", file(password)),
    ]
}

fn cases() -> Vec<Case> {
    let case = |name, listener, properties, expected| Case { name, listener, properties, expected };
    let mut mutual = tls("ca.pem");
    mutual.extend([("ssl.certificate.location", file("client.crt")), ("ssl.key.location", file("client.key"))]);
    vec![
        case("TLS", Listener::Tls, tls("ca.pem"), Works),
        case("mutual TLS", Listener::MutualTls, mutual, Works),
        case("SCRAM-SHA-512", Listener::Sasl, sasl("SCRAM-SHA-512", "password"), Works),
        case("PLAIN over TLS", Listener::Sasl, sasl("PLAIN", "password"), Works),
        case("wrong CA", Listener::Tls, tls("another-ca.pem"), Says("ssl.ca.location")),
        case("expired certificate", Listener::Expired, tls("ca.pem"), Says("expired")),
        case("certificate of another host", Listener::Misnamed, tls("ca.pem"), Says("another host name")),
        case("no client certificate", Listener::MutualTls, tls("ca.pem"), Says("ssl.certificate.location")),
        case(
            "wrong password, SCRAM-SHA-512",
            Listener::Sasl,
            sasl("SCRAM-SHA-512", "wrong-password"),
            Says("sasl.password"),
        ),
        case("wrong password, PLAIN", Listener::Sasl, sasl("PLAIN", "wrong-password"), Says("sasl.password")),
        case("TLS to a plaintext listener", Listener::Plaintext, tls("ca.pem"), Says("speaks no TLS")),
        case("plaintext to a TLS listener", Listener::Tls, Vec::new(), Says("security.protocol")),
    ]
}

impl Case {
    fn deployment(&self) -> Deployment {
        let name: String = self.name.chars().filter(char::is_ascii_alphanumeric).collect();
        deployment(&name, broker().address(self.listener), self.properties.clone())
    }

    /// What came of it.
    fn run(&self) -> Result<String, String> {
        let deployment = self.deployment();
        match self.expected {
            Works => works(&deployment),
            Says(text) => says(&deployment, text),
        }
    }
}

fn deployment(name: &str, via: String, properties: Properties) -> Deployment {
    let shape = Shape { via: Some(via), properties, ..Shape::default() };
    Deployment::shaped(&broker().cluster.bootstrap, &format!("transport-{name}"), shape)
}

fn works(deployment: &Deployment) -> Result<String, String> {
    create_topics(deployment);
    let records = expected::traffic(8, 10, START);
    send_all(deployment, &records);
    let service = deployment.start_ready("a", &[]);
    let mut judge = Judge::of(deployment, "bundles");
    judge.read_until(sessions_of(&records).len());
    service.terminate_well();
    let bundles = each_once(&Judge::all_of(deployment, "bundles"));
    if bundles.keys().eq(&sessions_of(&records)) {
        Ok("works".into())
    } else {
        Err(format!("{} bundles", bundles.len()))
    }
}

fn says(deployment: &Deployment, text: &str) -> Result<String, String> {
    let checked = deployment.command("check").arg("--connect").output().expect("check can be run");
    let stderr = String::from_utf8_lossy(&checked.stderr).into_owned();
    let mut service = deployment.start("a", &[]);
    // Tried again and again, and said now and then.
    until_true("it is said twice", || service.log().matches("waiting for kafka").count() >= 2);
    let (log, alive, ready) = (service.log(), service.status("/livez"), service.status("/readyz"));
    let lines = log.lines().count();
    let is_fine = checked.status.code() == Some(69)
        && [&stderr, &log].iter().all(|said| said.contains(text) && !said.contains(PASSWORD))
        && (alive, ready) == (Some(200), Some(503))
        && service.ended().is_none()
        && lines <= 10;
    let got = format!("{:?}, livez {alive:?}, readyz {ready:?}, {lines} lines: {stderr}", checked.status.code());
    if is_fine { Ok(got) } else { Err(format!("{got}\n{log}")) }
}

#[test]
fn each_way_in_works_and_each_mistake_is_named_and_tried_again() {
    let cases = cases();
    // A few at once: each waits most of its time.
    let side_by_side = |cases: &[Case]| -> Vec<_> {
        thread::scope(|scope| {
            let runs: Vec<_> = cases.iter().map(|case| scope.spawn(|| case.run())).collect();
            runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("panicked".into()))).collect()
        })
    };
    let got: Vec<_> = cases.chunks(4).flat_map(side_by_side).collect();
    for (Case { name, expected, .. }, got) in cases.iter().zip(&got) {
        println!("{name} | {expected:?} | {}", got.as_ref().unwrap_or_else(|error| error).trim_end());
    }
    assert!(got.iter().all(Result::is_ok));
}

#[test]
fn a_user_that_the_broker_gets_to_know_is_let_in_without_a_restart() {
    let mut properties = sasl("SCRAM-SHA-512", "password");
    properties.push(("sasl.username", LATECOMER.into()));
    properties.retain(|property| *property != ("sasl.username", USER.into()));
    let deployment = deployment("latecomer", broker().address(Listener::Sasl), properties);
    let mut service = deployment.start("a", &[]);
    until_true("the user is refused", || service.log().contains("mend sasl.username"));
    broker().set_scram_password(LATECOMER, PASSWORD);
    service.wait_until_ready();
    service.terminate_well();
}

#[test]
fn nothing_but_tls_is_ever_sent_where_tls_is_configured() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let deployment = deployment("sniffed", address, sasl("PLAIN", "password"));
    let _service = deployment.start("a", &[]);
    for mut connection in listener.incoming().take(4).map(|connection| connection.expect("a connection")) {
        let mut sent = [0; 1024];
        let length = connection.read(&mut sent).expect("something is sent");
        // A handshake record of TLS.
        assert_eq!(sent[..2], [22, 3]);
        assert!(!String::from_utf8_lossy(&sent[..length]).contains(PASSWORD));
    }
}
