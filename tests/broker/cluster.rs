//! Real Apache Kafka: one broker for all tests of this process, and brokers of a test's own.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// A forgotten broker ends by itself after this time.
const MAX_SECONDS: &str = "3600";

/// Brokers on loopback. They end with this value, at the latest with this process.
pub struct Cluster {
    pub bootstrap: String,
    /// Of the first broker; the others have the next ones.
    pub port: u16,
    dir: PathBuf,
    _keeper: Keeper,
}

/// Where a broker runs that is always this test's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// That of `KAFKA_BOOTSTRAP` where it is set.
    Shared,
    Own,
}

/// A shell that waits for its input to end, which it does in whatever way this process ends, and then stops the broker.
struct Keeper(Child);

/// The addresses of the broker that all tests share. The first one to ask starts it.
///
/// # Panics
/// When it does not start: a test without a broker has failed.
pub fn shared() -> &'static str {
    static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| Cluster::start(&directory("shared"), free_port(), 1, None, Whose::Shared));
    started.as_ref().map_or_else(|error| panic!("{error}"), |cluster| &cluster.bootstrap)
}

impl Cluster {
    /// Brokers of the caller's own, on a given port and those after it.
    ///
    /// # Panics
    /// When they do not start.
    pub fn own(port: u16, brokers: u16) -> Self {
        Self::start(&directory(&port.to_string()), port, brokers, None, Whose::Own)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Brokers of the caller's own, with a file of properties that go before the usual ones.
    ///
    /// # Panics
    /// When they do not start.
    pub fn with_properties(port: u16, brokers: u16, extra: &Path) -> Self {
        Self::start(&directory(&port.to_string()), port, brokers, Some(extra), Whose::Own)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// SIGKILL to a broker, which are numbered from one.
    pub fn kill(&self, broker: i32) {
        self.script("kill", broker);
    }

    /// SIGTERM to a broker: it hands over what it leads and ends.
    pub fn stop(&self, broker: i32) {
        self.script("stop", broker);
    }

    /// Starts a broker again with its data, and waits until it serves.
    pub fn restart(&self, broker: i32) {
        self.script("start", broker);
    }

    /// Starts all brokers that are down with their data, and waits until they serve: one alone of several does not.
    pub fn restart_all(&self) {
        succeed(script(Whose::Own).args(["start", "--max-seconds", MAX_SECONDS, "--dir"]).arg(&self.dir));
    }

    /// Sends a signal by its name to a broker.
    pub fn signal(&self, broker: i32, name: &str) {
        let pid = fs::read_to_string(self.dir.join(broker.to_string()).join("pid")).expect("the broker runs");
        succeed(Command::new("kill").args([&format!("-{name}"), pid.trim()]));
    }

    fn script(&self, command: &str, broker: i32) {
        let mut script = script(Whose::Own);
        script.arg(command).arg("--dir").arg(&self.dir).args(["--broker", &broker.to_string()]);
        if command == "start" {
            script.args(["--max-seconds", MAX_SECONDS]);
        }
        succeed(&mut script);
    }

    fn start(dir: &Path, port: u16, brokers: u16, extra: Option<&Path>, whose: Whose) -> Result<Self, String> {
        // First of all, so that nothing stays should the start fail half-way.
        let keeper = Keeper::of(dir, whose);
        let output = script(whose)
            .args(["start", "--max-seconds", MAX_SECONDS, "--port", &port.to_string()])
            .args(["--brokers", &brokers.to_string(), "--dir"])
            .arg(dir)
            .args(extra.into_iter().flat_map(|file| [OsStr::new("--extra"), file.as_os_str()]))
            .output()
            .map_err(|e| format!("the script can't be run: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().last().and_then(|line| line.strip_prefix("bootstrap=")) {
            Some(bootstrap) if output.status.success() => {
                Ok(Self { bootstrap: bootstrap.into(), port, dir: dir.into(), _keeper: keeper })
            }
            _ => Err(format!("no broker: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
        }
    }
}

impl Keeper {
    fn of(dir: &Path, whose: Whose) -> Self {
        // An interrupt from the terminal reaches the shell too, which has work left to do then.
        let wait_and_stop = r#"trap '' INT TERM HUP; read -r _; "$0" stop --dir "$1"; rm -rf "$1""#;
        let mut command = Command::new("sh");
        if whose == Whose::Own {
            command.env_remove("KAFKA_BOOTSTRAP");
        }
        command.args(["-c", wait_and_stop]).arg(script_path()).arg(dir);
        // Not the test's own output: who reads that would wait for the shell.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("a shell can be run"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A port that is free where one broker listens.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of ports in a row that are free wherever so many brokers listen. Below the ephemeral ports, so that no
/// client's connection takes one before its listener does.
pub fn free_ports(brokers: u16) -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Two processes of this test at once begin at different places.
    let begin = u16::try_from(process::id() % u32::from(COUNT)).expect("a remainder is small");
    loop {
        // A controller has the port after its broker's, and a proxy the one after that.
        let next = TAKEN.fetch_add(brokers + 2, Ordering::Relaxed);
        let port = FIRST + (begin + next) % COUNT;
        let is_free = |address: &str, port| TcpListener::bind((address, port)).is_ok();
        let all_free = (port..port + brokers).all(|port| {
            is_free("127.0.0.1", port)
                && is_free("127.0.0.2", port + 1)
                && ["127.0.0.3", "127.0.0.4"].iter().all(|address| is_free(address, port + 2))
        });
        if all_free {
            return port;
        }
    }
}

/// Runs one of Kafka's own tools and returns what it prints.
///
/// # Panics
/// When it fails.
pub fn tool(class: &str, arguments: &[&str]) -> String {
    let output = succeed(script(Whose::Own).args(["tool", "--class", class]).args(arguments));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the script can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("broker-{}-{name}", process::id()))
}

fn script_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/kafka")
}

fn script(whose: Whose) -> Command {
    let mut command = Command::new(script_path());
    if whose == Whose::Own {
        command.env_remove("KAFKA_BOOTSTRAP");
    }
    command
}
