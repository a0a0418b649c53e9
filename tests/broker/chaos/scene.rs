//! One fault's run: traffic, processes, the fault, and the checker's row.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use super::chance::Chance;
use super::ends::{Blocked, Ends};
use super::fleet::{Fleet, Settings};
use super::flow::{Flow, OPEN, Sent};
use super::history::History;
use super::java_client;
use super::size::Size;
use super::table::Row;
use crate::expected::replayed;
use crate::service::{Deployment, Shape};
use crate::topics::{Judge, create_topics};
use crate::wait::{PATIENCE, until, until_true};

pub const PARTITIONS: i32 = 8;
/// The processes that run when the faults begin.
pub const INSTANCES: [&str; 3] = ["a", "b", "c"];
/// A session stays open as long as the test takes: an end by time rests on the wall clock and is not the replay's.
const SECTIONS: &str = "[session]\nidle_timeout = \"12h\"\nmax_duration = \"24h\"";

/// What is to be shown.
pub struct Fault<'a> {
    pub name: &'static str,
    pub bootstrap: &'a str,
    pub replicas: i32,
    /// Where the processes look for Kafka, if not where the test does.
    pub via: Option<String>,
    pub properties: Vec<(&'static str, &'static str)>,
    pub settings: Settings,
}

/// What a fault may act on, while events come.
pub struct Scene<'a> {
    pub deployment: &'a Deployment,
    pub fleet: Fleet<'a>,
    pub judge: Judge,
    pub ends: Ends,
    pub chance: Chance,
    /// What else is worth to be said of the run.
    pub notes: Vec<String>,
}

impl<'a> Fault<'a> {
    pub fn new(name: &'static str, bootstrap: &'a str) -> Self {
        // What a process leaves behind is over soon, also where no successor ends it.
        let properties = vec![("session.timeout.ms", "3000"), ("transaction.timeout.ms", "10000")];
        Self { name, bootstrap, replicas: 1, via: None, properties, settings: &[] }
    }

    /// Runs the traffic; once it is at its full, lets `act` do its worst, which returns how often it did. Then waits until
    /// the processes have done their work, and has the checker look at what is there.
    pub fn run(self, act: impl FnOnce(&mut Scene<'_>) -> usize) -> Row {
        let began = Instant::now();
        let seed = Size::chosen().seed;
        let shape = Shape {
            partitions: PARTITIONS,
            replicas: self.replicas,
            via: self.via,
            properties: self.properties.into_iter().map(|(name, value)| (name, value.into())).collect(),
            sections: SECTIONS,
        };
        let deployment =
            Deployment::shaped(self.bootstrap, &self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"), shape);
        create_topics(&deployment);
        let mut fleet = Fleet::new(&deployment, self.settings);
        INSTANCES.iter().for_each(|instance| fleet.start(instance));
        fleet.wait_until_all_run();
        let mut scene = Scene {
            judge: Judge::of(&deployment, "bundles"),
            ends: Ends::of(&deployment),
            chance: Chance::of(seed, self.name),
            notes: Vec::new(),
            deployment: &deployment,
            fleet,
        };

        let flow = Flow::default();
        let (faults, open_at_once, sent) = thread::scope(|scope| {
            let producer = scope.spawn(|| flow.send(&deployment, seed));
            // Ends the traffic also where `act` panics: the scope waits for the producer.
            struct Ending<'a>(&'a Flow);
            impl Drop for Ending<'_> {
                fn drop(&mut self) {
                    self.0.faults_end();
                }
            }
            let ending = Ending(&flow);
            until_true("thousands of sessions are open", || {
                assert!(!producer.is_finished(), "the producer failed");
                flow.is_full() && scene.fleet.open_sessions() >= OPEN
            });
            flow.faults_begin();
            let faults = act(&mut scene);
            let open_at_once = flow.faults_end();
            drop(ending);
            (faults, open_at_once, producer.join().expect("the producer ends well"))
        });
        scene.settle(&sent);

        let Scene { fleet, ends, notes, .. } = scene;
        let restarts = fleet.restarts;
        let lag = ends.lag_left();
        fleet.drain();
        let open_transactions = ends.left_open();
        let expected = replayed(&deployment);
        // Else the test's own producer would have lost or doubled what the checker looks for.
        assert_eq!(expected.records, sent.records, "records on the events topic");
        assert!(expected.bundles.keys().eq(&sent.sessions), "the replay knows the sessions that were sent");
        assert_eq!(Judge::all_of(&deployment, "dead-letters"), [], "every event can be read");
        let bundles = java_client::read_committed(&deployment, "bundles");
        let history = History { sessions: &sent.sessions, bundles: &bundles, replayed: &expected.bundles };
        let row = Row {
            fault: self.name,
            faults,
            verdict: history.verdict(),
            open_transactions,
            lag,
            open_at_once,
            restarts,
            took: began.elapsed(),
            notes,
            examples: history.examples(),
        };
        row.print(seed);
        row
    }
}

impl Scene<'_> {
    /// Waits until so many more bundles are there.
    pub fn see(&mut self, more: usize) {
        let before = self.judge.read();
        until(&format!("there are {more} more bundles"), || {
            self.fleet.tend();
            (self.judge.read() >= before + more).then_some(())
        });
    }

    /// Lets up to `longest` pass: nobody knows when a fault comes.
    pub fn let_pass(&mut self, longest: Duration) {
        thread::sleep(self.chance.within(longest));
    }

    /// One of the processes.
    pub fn any_instance(&mut self) -> String {
        let instances = self.fleet.instances();
        instances[self.chance.below(instances.len())].clone()
    }

    /// Stops a process in the middle of a transaction, and returns the partitions whose readers wait for it now.
    ///
    /// It is stopped at random moments, and sent on where the transactions that are seen end without it.
    pub fn stop_in_a_transaction(&mut self, instance: &str) -> BTreeSet<Blocked> {
        /// Far longer than the transaction of a process that runs.
        const STANDS_STILL: Duration = Duration::from_millis(700);
        until(&format!("{instance} is stopped in a transaction"), || {
            self.let_pass(Duration::from_millis(150));
            self.fleet.stop(instance);
            let stopped = Instant::now();
            let mut blocked = self.ends.blocked().expect("the broker answers");
            while !blocked.is_empty() && stopped.elapsed() < STANDS_STILL {
                let now = self.ends.blocked().expect("the broker answers");
                blocked.retain(|partition| now.contains(partition));
            }
            if blocked.is_empty() {
                self.fleet.go_on(instance);
                return None;
            }
            Some(blocked)
        })
    }

    /// Waits until every session has its bundle and every record is committed; not for ever, for the checker is to say
    /// what is missing.
    fn settle(&mut self, sent: &Sent) {
        let mut moved = Instant::now();
        let mut before = 0;
        while moved.elapsed() < PATIENCE {
            self.fleet.tend();
            let now = self.judge.read();
            if now > before {
                moved = Instant::now();
                before = now;
            }
            let done: BTreeSet<_> = self.judge.records.iter().filter_map(|bundle| bundle.key.as_ref()).collect();
            if done.len() >= sent.sessions.len() && self.ends.lag().is_ok_and(|lag| lag == 0) {
                break;
            }
        }
        self.fleet.wait_until_all_run();
    }
}
