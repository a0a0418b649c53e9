//! Outages: who is away, for how long, with and without traffic; what the service says meanwhile, and when it goes on.
//!
//! Three brokers, each with partitions that nobody else has: the first leads all partitions but one, the second coordinates
//! the group and the transactions, the third leads what is left.

use std::fs;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};
use tempfile::TempDir;

use super::brokers::Brokers;
use super::history::{History, Verdict};
use super::size::Size;
use crate::START;
use crate::cluster::{Cluster, free_ports};
use crate::expected::{replayed, traffic};
use crate::service::{Deployment, Service, Shape};
use crate::topics::{Judge, config, event, send, send_all, writer};
use crate::wait::{PATIENCE, until, until_true};

/// The promise, for each outage that lasts longer.
const NOT_READY_WITHIN: Duration = Duration::from_secs(10);
const GOES_ON_WITHIN: Duration = Duration::from_secs(10);
/// An event and a pause.
const PAUSE: Duration = Duration::from_millis(5);
const EXTRA: &str = "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
                     transaction.state.log.min.isr=1\nmin.insync.replicas=1\n";
const SECTIONS: &str = "[session]\nidle_timeout = \"12h\"\nmax_duration = \"24h\"";
const COORDINATOR: i32 = 2;
const LEADER: i32 = 3;

/// Who is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    AllBrokers,
    Coordinator,
    Leader,
}

/// How.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// SIGKILL: connections are refused.
    Killed,
    /// SIGSTOP: connections stay, and nothing comes.
    Stopped,
}

#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub kind: Kind,
    pub how: How,
    pub seconds: u64,
}

impl Kind {
    fn brokers(self) -> &'static [i32] {
        match self {
            Self::AllBrokers => &[1, COORDINATOR, LEADER],
            Self::Coordinator => &[COORDINATOR],
            Self::Leader => &[LEADER],
        }
    }
}

/// What was seen of an outage.
struct Seen {
    /// From its begin until the service was not ready, with the reason.
    not_ready: Option<(Duration, String)>,
    /// From its begin until the gauge was 0. A scrape may be a second old.
    gauge_fell: Option<Duration>,
    /// Looks after that, and before the end, that found the gauge at 1: an alert would begin anew.
    flaps: usize,
    /// From its end until a record was committed.
    goes_on: Duration,
}

struct Scene<'a> {
    brokers: &'a Brokers,
    deployment: &'a Deployment,
    service: Service,
}

/// Three brokers without replicas.
fn brokers() -> Brokers {
    let files = TempDir::with_prefix_in("outages-", env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let extra = files.path().join("extra.properties");
    fs::write(&extra, EXTRA).expect("the properties can be written");
    let brokers = Brokers::of(Cluster::with_properties(free_ports(3), 3, &extra));
    coordinators_exist(brokers.bootstrap());
    brokers
}

/// A deployment whose group and transactions are coordinated by one broker, and the instance whose transactions are.
fn deployment(brokers: &Brokers) -> (Deployment, &'static str) {
    let (deployment, instance) = until("a name is coordinated by one broker", || {
        let shape = Shape {
            partitions: 3,
            properties: vec![("session.timeout.ms", "10000".into()), ("heartbeat.interval.ms", "3000".into())],
            sections: SECTIONS,
            ..Shape::default()
        };
        let deployment = Deployment::shaped(brokers.bootstrap(), "outages", shape);
        let name = &deployment.name;
        // The partitions of both go by the name's hash: other instances have other ones.
        let is_it =
            |instance: &&str| brokers.coordinator_of_transactions(&format!("{name}/{instance}/0")) == COORDINATOR;
        let instance = ["a", "b", "c", "d"].into_iter().find(is_it)?;
        (brokers.coordinator_of_group(name) == COORDINATOR).then_some((deployment, instance))
    });
    place_topics(&deployment);
    (deployment, instance)
}

impl Scene<'_> {
    fn committed(&self) -> Option<f64> {
        self.service.metric("duplex_records_total")
    }

    /// An outage; without traffic a record is sent after it.
    fn suffer(&mut self, outage: Outage, has_traffic: bool) -> Seen {
        until_true("the service is ready", || self.service.status("/readyz") == Some(200));
        let before = self.committed().expect("the service answers");
        until_true("traffic comes", || !has_traffic || self.committed().is_some_and(|now| now > before));
        let Outage { kind, how, seconds } = outage;
        let cluster = &self.brokers.cluster;
        for broker in kind.brokers() {
            match how {
                How::Killed => cluster.kill(*broker),
                How::Stopped => cluster.signal(*broker, "STOP"),
            }
        }
        let began = Instant::now();
        let (mut not_ready, mut gauge_fell, mut flaps) = (None, None, 0);
        while began.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(self.service.status("/livez"), Some(200), "a broker that is away is waited for");
            let (status, body) = self.service.get("/readyz").expect("the service answers");
            let gauge = self.service.metric("duplex_broker_connected");
            if gauge == Some(0.0) {
                gauge_fell.get_or_insert_with(|| began.elapsed());
            } else {
                flaps += usize::from(gauge_fell.is_some());
            }
            if status != 200 && not_ready.is_none() {
                not_ready = Some((began.elapsed(), body.lines().next().unwrap_or_default().to_owned()));
            }
        }
        if how == How::Killed {
            cluster.restart_all();
        } else {
            kind.brokers().iter().for_each(|broker| cluster.signal(*broker, "CONT"));
        }
        self.brokers.await_leaders();
        let before = self.committed().expect("the service answers");
        let back = Instant::now();
        if !has_traffic {
            send_all(self.deployment, &[event("after the silence", r#"{"type":"session.created"}"#)]);
        }
        until_true("records are committed again", || self.committed().is_some_and(|now| now > before));
        let goes_on = back.elapsed();
        until_true("the service is ready again", || self.service.status("/readyz") == Some(200));
        assert!(self.service.ended().is_none(), "the service goes on");
        Seen { not_ready, gauge_fell, flaps, goes_on }
    }

    /// SIGTERM while no broker answers, in the midst of a commit; how long the end took. Another process goes on.
    fn end_meanwhile(&mut self) -> Duration {
        let cluster = &self.brokers.cluster;
        let all = Kind::AllBrokers.brokers();
        all.iter().for_each(|broker| cluster.signal(*broker, "STOP"));
        until_true("a call is not answered", || self.service.status("/readyz") == Some(503));
        let service = std::mem::replace(&mut self.service, self.deployment.start("next", &[]));
        let (status, took) = service.terminate();
        all.iter().for_each(|broker| cluster.signal(*broker, "CONT"));
        self.brokers.await_leaders();
        assert!(status.success(), "the service ended with {status}");
        self.service.wait_until_ready();
        took
    }
}

/// Makes the internal topics exist.
fn coordinators_exist(bootstrap: &str) {
    let consumer: BaseConsumer = config(bootstrap).set("group.id", "first").create().expect("a consumer");
    until_true("there is a group coordinator", || {
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition("none", 0);
        consumer.committed_offsets(list, Duration::from_secs(5)).is_ok()
    });
    let producer: BaseProducer = config(bootstrap).set("transactional.id", "first").create().expect("a producer");
    until_true("there is a transaction coordinator", || producer.init_transactions(Duration::from_secs(5)).is_ok());
}

/// The last partition of each topic has its only replica on a broker of its own.
fn place_topics(deployment: &Deployment) {
    let admin: AdminClient<DefaultClientContext> = config(&deployment.bootstrap).create().expect("an admin client");
    let replicas: [&[i32]; 3] = [&[1], &[1], &[LEADER]];
    let names = ["events", "bundles", "dead-letters", "changelog"].map(|kind| deployment.topic(kind));
    let topics: Vec<_> = names
        .iter()
        .map(|name| {
            let topic = NewTopic::new(name, 3, TopicReplication::Variable(&replicas));
            match name.ends_with("changelog") {
                true => topic.set("cleanup.policy", "compact"),
                false => topic.set("retention.ms", "-1").set("message.timestamp.after.max.ms", "9223372036854775807"),
            }
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let made = runtime.block_on(admin.create_topics(&topics, &AdminOptions::new())).expect("the broker answers");
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}

/// Sends sessions one after the other until `act` is done; then what the open ones still have.
fn send_meanwhile<T>(deployment: &Deployment, act: impl FnOnce() -> T) -> T {
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let acted = AtomicBool::new(false);
    thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut writer = writer(deployment);
            for seed in 1.. {
                let wave = traffic(seed, 60, START + Duration::from_secs(3600) * u32::try_from(seed).expect("few"));
                let wave: Vec<_> = wave
                    .into_iter()
                    .map(|mut record| {
                        // Each wave has sessions of its own.
                        let key = record.key.take().expect("a session");
                        record.key = Some([format!("{seed}-").as_bytes(), &key].concat());
                        record
                    })
                    .collect();
                for record in &wave {
                    send(&mut writer, deployment, record);
                    if !acted.load(Ordering::Relaxed) {
                        thread::sleep(PAUSE);
                    }
                }
                if acted.load(Ordering::Relaxed) {
                    break;
                }
            }
            writer.flush(PATIENCE).expect("the records are delivered");
        });
        let ends = Ends(&acted);
        let result = act();
        drop(ends);
        producer.join().expect("the producer ends well");
        result
    })
}

#[test]
fn outages_are_waited_through_told_within_ten_seconds_and_over_ten_seconds_after_they_end() {
    let brokers = brokers();
    let (deployment, instance) = deployment(&brokers);
    let service = deployment.start_ready(instance, &[]);
    let mut scene = Scene { brokers: &brokers, deployment: &deployment, service };
    let outages = Size::chosen().outages;
    let (mut rows, ended) = send_meanwhile(&deployment, || {
        let rows: Vec<_> = outages.iter().map(|outage| (*outage, true, scene.suffer(*outage, true))).collect();
        let ended = scene.end_meanwhile();
        (rows, ended)
    });
    // What was sent is through.
    let expected = replayed(&deployment);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(expected.bundles.len());
    let silent = Size::chosen().silent_outages;
    rows.extend(silent.iter().map(|outage| (*outage, false, scene.suffer(*outage, false))));
    scene.service.terminate_well();
    let bundles = Judge::all_of(&deployment, "bundles");
    let bundles: Vec<_> =
        bundles.into_iter().map(|bundle| (bundle.key.expect("a bundle has a key"), bundle.value)).collect();
    let sessions = expected.bundles.keys().cloned().collect();
    let history = History { sessions: &sessions, bundles: &bundles, replayed: &expected.bundles };
    let verdict = history.verdict();
    print(&rows, ended, &verdict);
    for (outage, has_traffic, seen) in &rows {
        let what = format!("{outage:?}, traffic {has_traffic}");
        assert!(seen.goes_on < GOES_ON_WITHIN, "{what}: went on after {:?}", seen.goes_on);
        if Duration::from_secs(outage.seconds) > NOT_READY_WITHIN {
            let (after, _) = seen.not_ready.as_ref().unwrap_or_else(|| panic!("{what}: ready all the time"));
            assert!(*after < NOT_READY_WITHIN, "{what}: not ready after {after:?}");
            let fell = seen.gauge_fell.unwrap_or_else(|| panic!("{what}: the gauge was 1 all the time"));
            assert!(fell < NOT_READY_WITHIN, "{what}: the gauge fell after {fell:?}");
            assert_eq!(seen.flaps, 0, "{what}: the gauge rose again");
        }
    }
    let Verdict { sessions_in, .. } = verdict;
    let right = Verdict { sessions_in, bundles_out: sessions_in, ..Verdict::default() };
    assert_eq!(verdict, right, "{}", history.examples().join("\n"));
}

fn print(rows: &[(Outage, bool, Seen)], ended: Duration, verdict: &Verdict) {
    let mut text = String::from(
        "outage | length | kind        | how     | traffic | not ready after | gauge 0 after | goes on after | reason\n",
    );
    let shown = |time: Option<Duration>| time.map_or("-".into(), |time| format!("{:.1} s", time.as_secs_f64()));
    for (Outage { kind, how, seconds }, traffic, Seen { not_ready, gauge_fell, goes_on, .. }) in rows {
        let (after, reason) = not_ready.as_ref().map_or((None, ""), |(after, reason)| (Some(*after), reason.as_str()));
        let (after, gauge) = (shown(after), shown(*gauge_fell));
        text += &format!(
            "outage | {seconds:4} s | {:11} | {:7} | {:7} | {after:>15} | {gauge:>13} | {:>11.1} s | {reason}\n",
            format!("{kind:?}"),
            format!("{how:?}"),
            if *traffic { "yes" } else { "no" },
            goes_on.as_secs_f64(),
        );
    }
    text += &format!("outage | SIGTERM without any broker: ended after {:.1} s\n", ended.as_secs_f64());
    let Verdict { sessions_in, bundles_out, lost, twice, different } = verdict;
    text += &format!(
        "outage | sessions in {sessions_in}, bundles out {bundles_out}, lost {lost}, twice {twice}, different {different}\n"
    );
    // A test whose output nobody reads is still a test.
    let _ = io::stderr().write_all(text.as_bytes());
}
