//! What librdkafka says of itself: logs and errors, each distinct one at most once in five seconds.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tracing::{debug, error, info, warn};

use super::login::Login;
use super::remedies;
use super::settings::Settings;
use crate::clock::SystemClock;
use crate::time::Clock;

/// How long a message that was just logged stays silent.
const SILENCE: Duration = Duration::from_secs(5);
/// Distinct messages remembered; past it the oldest knowledge is given up at once.
const REMEMBERED: usize = 256;

/// Shared by all clients of the process: ten clients that lose one broker say so once.
static LIMITER: LazyLock<Limiter> = LazyLock::new(Limiter::default);

/// The context of clients that have nothing to report but logs.
#[derive(Clone, Debug, Default)]
pub(super) struct Logging {
    pub(super) login: Login,
}

impl Logging {
    pub(super) fn of(settings: &Settings) -> Self {
        Self { login: Login::of(settings) }
    }
}

impl ClientContext for Logging {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.login.token()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ConsumerContext for Logging {}

/// Whether to say this now, and how often it was withheld; for what a peer can cause again and again.
pub(super) fn admit(message: &str) -> Option<u64> {
    LIMITER.admit(message)
}

/// One line of librdkafka's log.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    let message = without_thread(message);
    // What these two say comes again as an error with the same text.
    // Nor does a partition say anything that was not added to a transaction because another one may not be.
    let is_said_elsewhere =
        matches!(facility, "FAIL" | "ERROR") || message.ends_with("Broker: Operation not attempted");
    if matches!(level, RDKafkaLogLevel::Debug) || is_said_elsewhere {
        debug!(target: "librdkafka", facility, "{message}");
        return;
    }
    let Some(repeated) = LIMITER.admit(message) else { return };
    let message = remedies::explained(message);
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            error!(target: "librdkafka", facility, repeated, "{message}");
        }
        RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning => {
            warn!(target: "librdkafka", facility, repeated, "{message}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            info!(target: "librdkafka", facility, repeated, "{message}");
        }
        RDKafkaLogLevel::Debug => {}
    }
}

/// One error of a client as a whole, such as a broker that can't be reached.
pub(super) fn log_error(error: &KafkaError, reason: &str) {
    // The end of a partition is no error. That "2/1 brokers are down" counts connections, not brokers: those that wait for
    // them say so, and each connection says why it failed.
    if matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::AllBrokersDown)) {
        return;
    }
    let reason = without_thread(reason);
    // Said where the token is read.
    if reason.starts_with("Failed to acquire SASL OAUTHBEARER token") {
        return;
    }
    if let Some(repeated) = LIMITER.admit(reason) {
        let reason = remedies::explained(reason);
        warn!(target: "librdkafka", repeated, "{reason}");
    }
}

/// `[thrd:127.0.0.1:9092/bootstrap]: text` without the thread.
pub(super) fn without_thread(message: &str) -> &str {
    match message.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")) {
        Some((_, text)) => text,
        None => message,
    }
}

/// What makes a message another one: neither numbers, nor how long a connection took to fail, nor which of the several
/// connections to a broker it was.
fn essence(message: &str) -> &str {
    let message = message.find("Connect to ").map_or(message, |start| &message[start..]);
    message.split_once(" (after ").map_or(message, |(essence, _)| essence)
}

/// Which messages were logged of late.
#[derive(Debug, Default)]
struct Limiter {
    recent: Mutex<HashMap<String, Recent>>,
    clock: SystemClock,
}

#[derive(Debug)]
struct Recent {
    logged_at: Duration,
    /// Equal messages since.
    withheld: u64,
}

impl Limiter {
    /// How often the message was withheld since it was last logged; `None` while it is to be withheld again.
    fn admit(&self, message: &str) -> Option<u64> {
        self.admit_at(message, self.clock.monotonic())
    }

    fn admit_at(&self, message: &str, now: Duration) -> Option<u64> {
        let key: String = essence(message).chars().filter(|c| !c.is_ascii_digit()).collect();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent.get_mut(&key) {
            if now.saturating_sub(known.logged_at) < SILENCE {
                known.withheld += 1;
                return None;
            }
            known.logged_at = now;
            return Some(std::mem::take(&mut known.withheld));
        }
        if recent.len() >= REMEMBERED {
            recent.clear();
        }
        recent.insert(key, Recent { logged_at: now, withheld: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_logged_once_in_five_seconds_and_tells_how_often_it_came() {
        let limiter = Limiter::default();
        let at = |ms, text| limiter.admit_at(text, Duration::from_millis(ms));
        let refused = "a:9092/1: Connect to ipv4#127.0.0.1:9092 failed: refused (after 1ms in state CONNECT)";
        let suppressed =
            "GroupCoordinator: a:9092: Connect to ipv4#127.0.0.1:9092 failed: refused (after 0ms, 3 identical)";
        assert_eq!(at(0, refused), Some(0));
        assert_eq!(at(900, suppressed), None);
        assert_eq!(at(950, "another"), Some(0));
        assert_eq!(at(4999, refused), None);
        assert_eq!(at(5000, suppressed), Some(2));
    }

    #[test]
    fn the_memory_is_bounded() {
        let limiter = Limiter::default();
        for n in 0..10 * REMEMBERED {
            limiter.admit_at(&"x".repeat(n), Duration::ZERO);
        }
        assert!(limiter.recent.lock().unwrap().len() <= REMEMBERED);
    }

    #[test]
    fn the_thread_is_cut_off() {
        assert_eq!(without_thread("[thrd:app]: configuration"), "configuration");
        assert_eq!(without_thread("plain"), "plain");
    }
}
