//! OAUTHBEARER with a token from a file, at a broker that takes unsigned tokens and asks for one every five seconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duplex_collector::kafka::{Indivisible, Settings, Topics, check_topics};

use super::acls::send_some;
use super::{Properties, deployment, file};
use crate::expected::each_once;
use crate::service::{BINARY, Deployment, Service};
use crate::topics::{Judge, create_topics};
use crate::transport::secure::{Listener, USER, broker};
use crate::wait::{PATIENCE, until_true};

/// What no log may have: of the signed token that no broker takes here.
const SIGNATURE: &str = "c2lnbmF0dXJl";

/// A deployment whose processes log in with a token.
struct Oauth {
    deployment: Deployment,
    token: PathBuf,
}

impl Oauth {
    /// With its topics, which the service can't make.
    fn new(name: &str) -> Self {
        let properties: Properties = vec![
            ("security.protocol", "sasl_ssl".into()),
            ("ssl.ca.location", file("ca.pem")),
            ("sasl.mechanism", "OAUTHBEARER".into()),
        ];
        let deployment = deployment(&format!("oauth-{name}"), broker().address(Listener::Sasl), properties);
        create_topics(&deployment);
        let settings = Settings {
            bootstrap_servers: deployment.bootstrap.clone(),
            group_id: deployment.name.clone(),
            instance: "topics".into(),
            oauth_token_file: String::new(),
            properties: BTreeMap::new(),
        };
        let topic = |kind| deployment.topic(kind);
        let topics = Topics {
            events: topic("events"),
            bundles: topic("bundles"),
            dead_letters: topic("dead-letters"),
            changelog: topic("changelog"),
            create: true,
            partitions: deployment.shape.partitions,
            replication_factor: 1,
        };
        check_topics(&settings, &topics, Indivisible::default(), false, PATIENCE).expect("topics can be made");
        let token = deployment.files.path().join("token");
        Self { deployment, token }
    }

    /// Puts a token into the file as a rotation does: whole or not at all.
    fn put(&self, token: &str) {
        let next = self.token.with_extension("next");
        fs::write(&next, token).and_then(|()| fs::rename(&next, &self.token)).expect("the file can be written");
    }

    fn environment(&self) -> [(&str, &str); 2] {
        [("DUPLEX_KAFKA__OAUTH_TOKEN_FILE", self.token.to_str().expect("UTF-8")), ("DUPLEX_TOPICS__CREATE", "false")]
    }

    fn start(&self) -> Service {
        self.deployment.start("a", &self.environment())
    }

    /// Exit code and output of another command.
    fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--config").arg(self.deployment.config()).envs(self.environment());
        let output = command.output().expect("the command can be run");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.code(), text)
    }
}

fn encoded(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock past 1970")
}

/// An unsigned token that expires at this time.
fn token(principal: &str, expires: Duration) -> String {
    let claims = format!(r#"{{"sub":"{principal}","iat":{},"exp":{}}}"#, now().as_secs() - 60, expires.as_secs_f64());
    format!("{}.{}.", encoded(r#"{"alg":"none"}"#), encoded(&claims))
}

fn token_for(principal: &str, seconds: u64) -> String {
    token(principal, now() + Duration::from_secs(seconds))
}

#[test]
fn a_token_lets_the_service_and_every_command_in() {
    let oauth = Oauth::new("works");
    oauth.put(&token_for(USER, 3600));
    let mut service = oauth.start();
    service.wait_until_ready();
    let sessions = send_some(&oauth.deployment, 30);
    let mut bundles = Judge::of(&oauth.deployment, "bundles");
    bundles.read_until(sessions);
    Judge::of(&oauth.deployment, "dead-letters").read_until(1);
    service.terminate_well();
    assert_eq!(each_once(&Judge::all_of(&oauth.deployment, "bundles")).len(), sessions);
    println!("OAUTHBEARER | works | {sessions} sessions, each one bundle");
    let commands: [&[&str]; 5] = [
        &["check", "--connect"],
        &["dead-letters", "list"],
        &["dead-letters", "redrive", "--all"],
        &["report", "--topic", "-o", "-"],
        &["loadgen", "--sessions", "2", "--rate", "0"],
    ];
    let said = commands.map(|arguments| oauth.command(arguments));
    for (arguments, (code, text)) in commands.iter().zip(&said) {
        println!("OAUTHBEARER, {} | 0 | {code:?} {}", arguments.join(" "), text.lines().last().unwrap_or_default());
    }
    assert!(said.iter().all(|(code, _)| *code == Some(0)), "{said:?}");
    assert!(said[0].1.contains("not checked") && said[0].1.contains("permissions are fine"), "{}", said[0].1);
}

#[test]
fn each_unusable_token_is_named_by_its_file_and_waited_for() {
    let expired = token(USER, now() - Duration::from_secs(30));
    let signed = {
        let claims = format!(r#"{{"sub":"{USER}","exp":{}}}"#, now().as_secs() + 3600);
        format!("{}.{}.{SIGNATURE}", encoded(r#"{"alg":"RS256"}"#), encoded(&claims))
    };
    let cases = [
        ("missing", None, "can't be read"),
        ("garbage", Some("hunter2 and nothing else".to_owned()), "holds no JWT"),
        ("expired", Some(expired), "expired at"),
        ("refused", Some(signed), "the broker refuses the token"),
    ];
    let case = |(name, content, text): &(&str, Option<String>, &str)| {
        let oauth = Oauth::new(name);
        if let Some(content) = content {
            oauth.put(content);
        }
        let (code, checked) = oauth.command(&["check", "--connect"]);
        let mut service = oauth.start();
        until_true("it is said twice", || service.log().matches("waiting for kafka").count() >= 2);
        let (log, probes) = (service.log(), (service.status("/livez"), service.status("/readyz")));
        let where_it_is = if *name == "refused" { "oauth_token_file" } else { oauth.token.to_str().expect("UTF-8") };
        let secrets = ["hunter2", SIGNATURE];
        let is_fine = code == Some(69)
            && [&log, &checked].iter().all(|said| said.contains(text) && said.contains(where_it_is))
            && secrets.iter().all(|secret| !log.contains(secret) && !checked.contains(secret))
            && probes == (Some(200), Some(503))
            && service.ended().is_none()
            && log.lines().count() <= 10;
        let last = checked.lines().last().unwrap_or_default().to_owned();
        let said = format!("{code:?}, livez and readyz {probes:?}, {} lines: {last}", log.lines().count());
        oauth.put(&token_for(USER, 3600));
        service.wait_until_ready();
        service.terminate_well();
        (
            is_fine,
            format!("OAUTHBEARER, token {name}, then a good one | {text}, goes on without a restart | {said}"),
            log,
        )
    };
    let done: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = cases.iter().map(|one| scope.spawn(move || case(one))).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).collect()
    });
    done.iter().for_each(|(_, row, _)| println!("{row}"));
    for (is_fine, row, log) in done {
        assert!(is_fine, "{row}\n{log}");
    }
}

#[test]
fn a_principal_that_may_nothing_is_told_what_it_needs() {
    let oauth = Oauth::new("stranger");
    oauth.put(&token_for("stranger", 3600));
    let (code, text) = oauth.command(&["check", "--connect"]);
    println!("OAUTHBEARER, principal without ACLs | 78, named | {code:?} {text}");
    let topics = ["events", "bundles", "dead-letters", "changelog"].map(|kind| oauth.deployment.topic(kind));
    assert!(
        code == Some(78) && topics.iter().all(|topic| text.contains(topic)) && text.contains("needs Read"),
        "{text}"
    );
    let (status, _) = oauth.start().wait_until_ended();
    assert_eq!(status.code(), Some(78));
}

#[test]
fn a_token_that_is_replaced_in_time_keeps_the_service_going_and_one_that_is_not_is_waited_for() {
    const LIFE: u64 = 20;
    const ROTATED_FOR: Duration = Duration::from_secs(45);
    let oauth = Oauth::new("rotation");
    oauth.put(&token_for(USER, LIFE));
    let mut service = oauth.start();
    service.wait_until_ready();
    let mut bundles = Judge::of(&oauth.deployment, "bundles");
    let rotates = AtomicBool::new(true);
    let (mut sessions, mut written) = (0, 0);
    thread::scope(|scope| {
        // As a kubelet does: well before the end of the one that is there.
        let rotation = scope.spawn(|| {
            let mut tokens = 1;
            while rotates.load(Ordering::Relaxed) {
                oauth.put(&token_for(USER, LIFE));
                tokens += 1;
                (0..20)
                    .take_while(|_| rotates.load(Ordering::Relaxed))
                    .for_each(|_| thread::sleep(Duration::from_millis(250)));
            }
            tokens
        });
        let began = Instant::now();
        for seed in 40.. {
            if began.elapsed() > ROTATED_FOR {
                break;
            }
            sessions += send_some(&oauth.deployment, seed);
            bundles.read_until(sessions);
            // With nothing to write in between, whatever the clients do then.
            thread::sleep(Duration::from_secs(3));
        }
        rotates.store(false, Ordering::Relaxed);
        written = rotation.join().expect("no panic");
    });
    let log = service.log();
    assert!(!log.contains("token") && !log.contains("uthentication"), "{log}");
    println!(
        "OAUTHBEARER, tokens of {LIFE} s, {written} of them, authentication anew every 5 s | goes on | {sessions} sessions in {ROTATED_FOR:?}"
    );
    until_true("the last token has expired", || service.log().contains("expired at"));
    sessions += send_some(&oauth.deployment, 80);
    thread::sleep(Duration::from_secs(12));
    let (lines, ended) = (service.log()[log.len()..].lines().count(), service.ended());
    assert!(ended.is_none() && lines <= 60, "{ended:?}, {lines} lines: {}", service.log());
    oauth.put(&token_for(USER, 3600));
    bundles.read_until(sessions);
    service.wait_until_ready();
    service.terminate_well();
    assert_eq!(each_once(&Judge::all_of(&oauth.deployment, "bundles")).len(), sessions);
    println!(
        "OAUTHBEARER, last token ran out, then a new one | goes on, each once | {lines} lines, {sessions} sessions"
    );
}
