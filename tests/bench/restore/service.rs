//! The same restore by the service's own worker, from a real Kafka.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duplex_collector::clock::SystemClock;
use duplex_collector::collector;
use duplex_collector::ids::{Offset, Partition};
use duplex_collector::kafka::{self, Changelog, Consumer, DeadLetterPayload, Producer, Topics, Writer};
use duplex_collector::synth::Event;
use duplex_collector::task::StateSize;
use duplex_collector::worker::{Committed, Lag, Observer, ProcessingGuarantee, Settings, Step, TaskState, Worker};

use super::made::PARTITIONS;
use super::table::{self, Row};

const PATIENCE: Duration = Duration::from_secs(600);

/// A real Kafka: `KAFKA_BOOTSTRAP`'s, or one that ends with this value.
pub struct Broker {
    pub bootstrap: String,
    folder: PathBuf,
}

impl Broker {
    pub fn start(folder: &Path) -> Result<Self, String> {
        let output = support("start", folder, &["--port", "23490"]).map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let bootstrap = text.lines().last().and_then(|line| line.strip_prefix("bootstrap="));
        let bootstrap = bootstrap.ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
        Ok(Self { bootstrap: bootstrap.to_owned(), folder: folder.to_owned() })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Err(e) = support("stop", &self.folder, &[]) {
            eprintln!("the broker was not stopped: {e}");
        }
    }
}

fn support(command: &str, folder: &Path, more: &[&str]) -> std::io::Result<std::process::Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/kafka");
    Command::new("bash").arg(script).arg(command).arg("--dir").arg(folder).args(more).output()
}

/// How the topics came to hold what is restored.
pub struct Filled {
    pub wrote: Duration,
    pub committed: Duration,
    /// Of keys and values of the changelog.
    pub changelog_bytes: u64,
}

/// Writes the events and lets a worker read them all.
pub fn fill(bootstrap: &str, name: &str, events: impl Iterator<Item = Event>) -> Filled {
    let (settings, topics) = cluster(bootstrap, name);
    kafka::check_topics(&settings, &topics, false, PATIENCE).expect("topics can be made");
    let began = Instant::now();
    let mut writer = Writer::new(&settings).expect("a writer");
    let mut written = 0;
    for event in events {
        let key = event.session.as_str().as_bytes();
        writer.send(&topics.events, Some(key), &event.value, Some(event.at), &[]).expect("the broker takes it");
        written += 1;
    }
    writer.flush(PATIENCE).expect("the broker takes all");
    let wrote = began.elapsed();
    let began = Instant::now();
    let seen = run(bootstrap, name, move |seen| seen.records >= written);
    Filled { wrote, committed: began.elapsed(), changelog_bytes: seen.changelog_bytes }
}

/// In a process of its own: a worker takes over what [`fill`] left.
pub fn measure(bootstrap: &str, name: &str) -> Row {
    let resident_before = table::resident();
    // How many sessions are open is told with the first commit, after some seconds of silence.
    let seen = run(bootstrap, name, |seen| seen.running_at.is_some() && !seen.open.is_empty());
    let (assigned_at, running_at) = (seen.assigned_at.expect("assigned"), seen.running_at.expect("it runs"));
    Row {
        took: running_at - assigned_at,
        sessions: seen.open.values().sum(),
        records: seen.restored.values().sum(),
        resident_before,
        resident_after: seen.resident,
        resident_peak: table::resident_peak(),
        ..Row::default()
    }
}

/// A worker as the service runs it, until `is_done`.
fn run(bootstrap: &str, name: &str, is_done: impl Fn(&Seen) -> bool + Send + 'static) -> Seen {
    let (settings, topics) = cluster(bootstrap, name);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = Watcher { seen: Arc::clone(&seen), stop: Arc::clone(&stop), is_done: Box::new(is_done) };
    let guarantee = ProcessingGuarantee::ExactlyOnce;
    let ports = (
        Consumer::new(&settings, &topics, 0).expect("a consumer"),
        Producer::new(&settings, &topics, 0, guarantee, DeadLetterPayload::Keep).expect("a producer"),
        Changelog::new(&settings, &topics),
        watcher,
        SystemClock::new(),
    );
    let sessions = Arc::new(collector::Settings::default());
    let mut worker = Worker::new(ports, topics.events.into(), Settings::default(), sessions);
    worker.run(&stop).expect("a worker that goes on");
    drop(worker);
    Arc::into_inner(seen).expect("the worker is gone").into_inner().expect("nobody panicked")
}

fn cluster(bootstrap: &str, name: &str) -> (kafka::Settings, Topics) {
    let topics = Topics {
        events: format!("{name}-events"),
        bundles: format!("{name}-bundles"),
        dead_letters: format!("{name}-dead-letters"),
        changelog: format!("{name}-changelog"),
        create: true,
        partitions: PARTITIONS,
        replication_factor: 1,
    };
    let settings = kafka::Settings {
        bootstrap_servers: bootstrap.to_owned(),
        group_id: name.to_owned(),
        instance: "bench".to_owned(),
        oauth_token_file: String::new(),
        properties: BTreeMap::new(),
    };
    (settings, topics)
}

#[derive(Default)]
struct Seen {
    records: u64,
    changelog_bytes: u64,
    assigned_at: Option<Instant>,
    running_at: Option<Instant>,
    /// Right after the last partition ran.
    resident: u64,
    restored: BTreeMap<Partition, u64>,
    running: usize,
    open: BTreeMap<Partition, usize>,
}

/// Looks on, and stops the worker when enough was seen.
struct Watcher {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    is_done: Box<dyn Fn(&Seen) -> bool + Send>,
}

impl Watcher {
    fn note(&self, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.lock().expect("nobody panicked");
        note(&mut seen);
        if (self.is_done)(&seen) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Observer for Watcher {
    fn committed(&mut self, commit: &Committed<'_>) {
        self.note(|seen| {
            seen.records += commit.counts.records;
            seen.changelog_bytes += commit.changelog_bytes as u64;
            seen.open.extend(commit.state.iter().map(|(partition, state)| (*partition, state.open_sessions)));
        });
    }

    fn task(&mut self, partition: Partition, state: TaskState, restored: u64) {
        self.note(|seen| match state {
            TaskState::Restoring => drop(seen.assigned_at.get_or_insert_with(Instant::now)),
            TaskState::Running => {
                seen.restored.insert(partition, restored);
                seen.running += 1;
                if seen.running == PARTITIONS as usize {
                    seen.running_at = Some(Instant::now());
                    seen.resident = table::resident();
                }
            }
            TaskState::Closed => {}
        });
    }

    fn aborted(&mut self, _: Step) {
        panic!("a transaction was aborted: the figures would be wrong");
    }

    fn joined(&mut self, _: bool) {}
    fn restoring(&mut self, _: Partition, _: Option<u64>) {}
    fn restored(&mut self, _: Partition, _: StateSize) {}

    fn lag(&mut self, _: Partition, _: Lag) {}
    fn polled(&mut self, _: Duration) {}
    fn away(&mut self, _: Option<&str>) {}
    fn progressed(&mut self, _: Partition, _: Offset) {}
}
