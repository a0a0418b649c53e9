//! Real Apache Kafka: one broker for all tests of this process, and brokers of a test's own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// A forgotten broker ends by itself after this time.
const MAX_SECONDS: &str = "1800";

/// A single broker on loopback. It ends with this value, at the latest with this process.
pub struct Broker {
    pub bootstrap: String,
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
    static SHARED: OnceLock<Result<Broker, String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| Broker::start(&directory("shared"), free_port(), Whose::Shared));
    started.as_ref().map_or_else(|error| panic!("{error}"), |broker| &broker.bootstrap)
}

impl Broker {
    /// A broker of the caller's own, on a given port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn own(port: u16) -> Self {
        Self::start(&directory(&port.to_string()), port, Whose::Own).unwrap_or_else(|error| panic!("{error}"))
    }

    fn start(dir: &Path, port: u16, whose: Whose) -> Result<Self, String> {
        // First of all, so that nothing stays should the start fail half-way.
        let keeper = Keeper::of(dir, whose);
        let output = script(whose)
            .args(["start", "--max-seconds", MAX_SECONDS, "--port", &port.to_string(), "--dir"])
            .arg(dir)
            .output()
            .map_err(|e| format!("the script can't be run: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().last().and_then(|line| line.strip_prefix("bootstrap=")) {
            Some(bootstrap) if output.status.success() => Ok(Self { bootstrap: bootstrap.into(), _keeper: keeper }),
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

/// A port of 127.0.0.1 whose successor is free on 127.0.0.2, where a broker's controller listens. Below the ephemeral
/// ports, so that no client's connection takes it before its listener does.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Two processes of this test at once begin at different places.
    let begin = u16::try_from(process::id() % u32::from(COUNT)).expect("a remainder is small");
    loop {
        let next = TAKEN.fetch_add(2, Ordering::Relaxed);
        let port = FIRST + (begin + next) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("127.0.0.2", port + 1)).is_ok() {
            return port;
        }
    }
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
