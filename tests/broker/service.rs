//! The service as its users run it: the binary, a configuration file, signals, HTTP.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{process, thread};

use tempfile::TempDir;

use crate::cluster;
use crate::wait::{until, until_true};

pub const BINARY: &str = env!("CARGO_BIN_EXE_duplex-collector");

/// Topics and a group of one test's own, and the configuration of the processes that serve them.
pub struct Deployment {
    pub bootstrap: String,
    /// The group, and what every topic's name begins with.
    pub name: String,
    pub files: TempDir,
    pub shape: Shape,
}

/// What deployments differ in.
pub struct Shape {
    pub partitions: i32,
    pub replicas: i32,
    /// Where the processes begin to look for Kafka, if not where the test does.
    pub via: Option<String>,
    /// librdkafka's properties beside the usual ones, or in their place.
    pub properties: Vec<(&'static str, &'static str)>,
    /// Further sections of the configuration.
    pub sections: &'static str,
}

impl Default for Shape {
    fn default() -> Self {
        Self { partitions: 4, replicas: 1, via: None, properties: Vec::new(), sections: "" }
    }
}

/// A running process of the service. It is killed when this value is dropped.
pub struct Service {
    child: Child,
    admin: SocketAddr,
    log: PathBuf,
}

impl Deployment {
    pub fn new(bootstrap: &str, test: &str) -> Self {
        Self::shaped(bootstrap, test, Shape::default())
    }

    pub fn shaped(bootstrap: &str, test: &str, shape: Shape) -> Self {
        // Unlike those of any earlier run too: the cluster may be one that stays.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock past 1970");
        let name = format!("{test}-{}-{}", process::id(), since_epoch.as_millis());
        let files = TempDir::with_prefix_in(format!("{test}-"), env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let deployment = Self { bootstrap: bootstrap.into(), name, files, shape };
        fs::write(deployment.config(), deployment.toml()).expect("the configuration can be written");
        deployment
    }

    /// One of this deployment's topics.
    pub fn topic(&self, kind: &str) -> String {
        format!("{}.{kind}", self.name)
    }

    pub fn config(&self) -> PathBuf {
        self.files.path().join("config.toml")
    }

    fn toml(&self) -> String {
        let Self { bootstrap, name, shape, .. } = self;
        let Shape { partitions, replicas, via, properties, sections } = shape;
        let bootstrap = via.as_ref().unwrap_or(bootstrap);
        // A killed member is missed soon.
        let usual = [("session.timeout.ms", "4000"), ("heartbeat.interval.ms", "500")];
        let mut all: BTreeMap<&str, &str> = usual.into();
        all.extend(properties.iter().copied());
        let properties: Vec<_> = all.iter().map(|(name, value)| format!("{name:?} = {value:?}")).collect();
        let properties = properties.join(", ");
        format!(
            r#"
            [kafka]
            bootstrap_servers = "{bootstrap}"
            group_id = "{name}"
            properties = {{ {properties} }}
            [topics]
            events = "{name}.events"
            bundles = "{name}.bundles"
            dead_letters = "{name}.dead-letters"
            changelog = "{name}.changelog"
            create = true
            partitions = {partitions}
            replication_factor = {replicas}
            [worker]
            commit_interval = "100ms"
            {sections}
            "#
        )
    }

    /// The binary with a subcommand; nothing of this process's own configuration reaches it.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(BINARY);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DUPLEX_") {
                command.env_remove(name);
            }
        }
        command.arg(subcommand).arg("--config").arg(self.config());
        command
    }

    /// Starts a process of the service; `instance` tells it from others, `settings` are environment variables.
    pub fn start(&self, instance: &str, settings: &[(&str, &str)]) -> Service {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let admin = SocketAddr::from(([127, 0, 0, 1], cluster::free_port()));
        let log = self.files.path().join(format!("service-{}.log", STARTED.fetch_add(1, Ordering::Relaxed)));
        let child = self
            .command("run")
            .env("DUPLEX_KAFKA__INSTANCE", instance)
            .env("DUPLEX_ADMIN__LISTEN", admin.to_string())
            .envs(settings.iter().copied())
            .stderr(File::create(&log).expect("a log file"))
            .spawn()
            .expect("the service can be run");
        Service { child, admin, log }
    }

    /// As [`Self::start`], and waits until it is ready.
    pub fn start_ready(&self, instance: &str, settings: &[(&str, &str)]) -> Service {
        let mut service = self.start(instance, settings);
        service.wait_until_ready();
        service
    }
}

impl Service {
    /// Status and body of a GET; `None` while nobody answers.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin);
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    }

    pub fn status(&self, path: &str) -> Option<u16> {
        self.get(path).map(|(status, _)| status)
    }

    pub fn wait_until_ready(&mut self) {
        until_true("the service is ready", || {
            let ended = self.ended();
            assert!(ended.is_none(), "the service ended: {ended:?}");
            self.status("/readyz") == Some(200)
        });
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("the service runs until it is killed");
        self.child.wait().expect("the service is a child");
    }

    /// Sends a signal by its name, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill can be run");
        assert!(sent.success(), "no such process any more: {pid}");
    }

    /// Whether a SIGSTOP has had its effect.
    pub fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the service is a child");
        // The name before it may hold anything, brackets too.
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    /// The exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the service is a child")
    }

    /// SIGTERM; the exit status, and how long it took.
    pub fn terminate(mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.signal("TERM");
        let status = until("the service has ended", || self.ended());
        (status, began.elapsed())
    }

    /// Waits until it ends by itself; the exit status and the log.
    pub fn wait_until_ended(mut self) -> (ExitStatus, String) {
        let status = until("the service has ended", || self.child.try_wait().expect("the service is a child"));
        (status, self.log())
    }

    /// As [`Self::terminate`], for a service that has nothing left to do.
    pub fn terminate_well(self) {
        let (status, _) = self.terminate();
        assert!(status.success(), "the service ended with {status}");
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).expect("the log can be read")).into_owned()
    }

    /// The value of one series, or of a family the sum over its series.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics")?;
        let is_of_it = |name: &str| name == series || name.split('{').next() == Some(series);
        let of_line = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            is_of_it(name).then(|| value.parse::<f64>().expect("a number"))
        };
        text.lines().filter(|line| !line.starts_with('#')).filter_map(of_line).reduce(|one, other| one + other)
    }

    pub fn address(&self) -> SocketAddr {
        self.admin
    }

    /// The gauges of the run view, by series.
    pub fn run_gauges(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.get("/metrics").expect("the service answers");
        assert_eq!(status, 200, "{text}");
        let series = text.lines().filter(|line| line.contains(r#"window=""#)).map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        series.collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail when it has ended already, as intended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("--- {}\n{}", self.log.display(), lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}
