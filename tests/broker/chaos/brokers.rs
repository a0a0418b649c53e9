//! Three brokers: who leads and who coordinates, and taking it from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::metadata::Metadata;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::topics::config;
use crate::wait::{until, until_true};

const BROKERS: u16 = 3;

/// A cluster of three brokers, each a controller too.
pub struct Brokers {
    pub cluster: Cluster,
    client: BaseConsumer,
}

/// A partition as the brokers describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Placed {
    leader: i32,
    replicas: Vec<i32>,
    in_sync: usize,
}

/// The three brokers, all of them up; one test has them at a time.
pub fn three() -> MutexGuard<'static, Brokers> {
    static THREE: OnceLock<Mutex<Brokers>> = OnceLock::new();
    let brokers = THREE.get_or_init(|| {
        let cluster = Cluster::own(cluster::free_ports(BROKERS), BROKERS);
        Mutex::new(Brokers::of(cluster))
    });
    // A test that failed may have left one down.
    let brokers = brokers.lock().unwrap_or_else(PoisonError::into_inner);
    (1..=i32::from(BROKERS)).for_each(|broker| brokers.cluster.restart(broker));
    brokers
}

impl Brokers {
    pub fn of(cluster: Cluster) -> Self {
        let client = config(&cluster.bootstrap).create().expect("a consumer");
        Self { cluster, client }
    }

    /// Waits until every partition has a leader that is there.
    pub fn await_leaders(&self) {
        until_true("every partition has its leader", || {
            self.placed(|_| true).is_ok_and(|all| all.values().all(|placed| placed.leader > 0 && placed.in_sync > 0))
        });
    }

    pub fn bootstrap(&self) -> &str {
        &self.cluster.bootstrap
    }

    /// SIGKILL.
    pub fn kill(&self, broker: i32) {
        self.cluster.kill(broker);
    }

    /// SIGTERM: hands over what it leads.
    pub fn stop(&self, broker: i32) {
        self.cluster.stop(broker);
    }

    /// Starts a broker again, and waits until it has caught up with every partition.
    pub fn restart(&self, broker: i32) {
        self.cluster.restart(broker);
        until_true("all replicas are in sync", || {
            self.placed(|_| true).is_ok_and(|all| all.values().all(|placed| placed.in_sync == usize::from(BROKERS)))
        });
    }

    /// The broker that coordinates a consumer group.
    pub fn coordinator_of_group(&self, group: &str) -> i32 {
        self.leader_for("__consumer_offsets", group)
    }

    /// The broker that coordinates the transactions of a producer.
    pub fn coordinator_of_transactions(&self, transactional_id: &str) -> i32 {
        self.leader_for("__transaction_state", transactional_id)
    }

    /// The broker that leads the most partitions of topics whose names begin so, after how many these are.
    pub fn leads_most(&self, begin: &str) -> (usize, i32) {
        let leaders: Vec<_> = self.described(begin).into_values().map(|placed| placed.leader).collect();
        let brokers = 1..=i32::from(BROKERS);
        let led = brokers.map(|broker| (leaders.iter().filter(|leader| **leader == broker).count(), broker));
        led.max().expect("there are brokers")
    }

    /// Gives each partition of topics whose names begin so to the next of its replicas; how many have changed hands.
    pub fn move_leaders(&self, begins: &[&str], files: &Path) -> usize {
        let before: BTreeMap<_, _> = begins.iter().flat_map(|begin| self.described(begin)).collect();
        let rotated = |placed: &Placed| {
            let mut replicas = placed.replicas.clone();
            replicas.sort_unstable();
            let at = replicas.iter().position(|replica| *replica == placed.leader).unwrap_or(0);
            replicas.rotate_left((at + 1) % usize::from(BROKERS));
            replicas
        };
        let wanted: BTreeMap<_, _> = before.iter().map(|(id, placed)| (id.clone(), rotated(placed))).collect();
        let partitions: Vec<Value> = wanted
            .iter()
            .map(|((topic, id), replicas)| json!({"topic": topic, "partition": id, "replicas": replicas}))
            .collect();
        let file = files.join("leaders.json");
        let plan = json!({"version": 1, "partitions": partitions});
        fs::write(&file, plan.to_string()).expect("the plan can be written");
        let file = file.to_str().expect("UTF-8");
        let servers = ["--bootstrap-server", self.bootstrap()];
        let reassign = ["--execute", "--reassignment-json-file", file];
        cluster::tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", &[&servers[..], &reassign].concat());
        until_true("the replicas are in the new order", || {
            let now = self.placed(|_| true);
            now.is_ok_and(|now| wanted.iter().all(|(id, replicas)| now[id].replicas == *replicas))
        });
        let elect = ["--election-type", "PREFERRED", "--path-to-json-file", file];
        cluster::tool("org.apache.kafka.tools.LeaderElectionCommand", &[&servers[..], &elect].concat());
        let led = until("the new leaders lead", || {
            let now = self.placed(|_| true).ok()?;
            wanted.iter().all(|(id, replicas)| now[id].leader == replicas[0]).then_some(now)
        });
        before.iter().filter(|(id, placed)| led[*id].leader != placed.leader).count()
    }

    /// The leader of the partition that a name belongs to, which both coordinators find by Java's hash.
    fn leader_for(&self, topic: &str, name: &str) -> i32 {
        let partitions = self.described(topic);
        let hash = name.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
        let nth = hash.checked_abs().unwrap_or(0) % i32::try_from(partitions.len()).expect("a count");
        partitions[&(topic.to_owned(), nth)].leader
    }

    fn described(&self, begin: &str) -> BTreeMap<(String, i32), Placed> {
        until(&format!("partitions of {begin} all have leaders"), || {
            let all = self.placed(|topic| topic.starts_with(begin)).ok()?;
            (!all.is_empty() && all.values().all(|placed| placed.leader > 0)).then_some(all)
        })
    }

    fn placed(&self, wanted: impl Fn(&str) -> bool) -> KafkaResult<BTreeMap<(String, i32), Placed>> {
        let metadata: Metadata = self.client.fetch_metadata(None, Duration::from_secs(5))?;
        let topics = metadata.topics().iter().filter(|topic| wanted(topic.name()));
        let partitions = topics.flat_map(|topic| {
            topic.partitions().iter().map(|partition| {
                let placed = Placed {
                    leader: partition.leader(),
                    replicas: partition.replicas().to_vec(),
                    in_sync: partition.isr().len(),
                };
                ((topic.name().to_owned(), partition.id()), placed)
            })
        });
        Ok(partitions.collect())
    }
}
