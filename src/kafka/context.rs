//! What librdkafka says of itself: logs and errors, each distinct one at most once in five seconds.

use std::error::Error;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tracing::{debug, error, info, warn};

use super::login::Login;
use super::remedies;
use super::settings::Settings;
use crate::limiter;

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

/// One line of librdkafka's log.
pub(super) fn log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    let message = without_thread(message);
    // FAIL and ERROR come again through the error callback. "Operation not attempted" only means that another partition of the
    // same request was refused, which has a line of its own.
    let is_said_elsewhere =
        matches!(facility, "FAIL" | "ERROR") || message.ends_with("Broker: Operation not attempted");
    if matches!(level, RDKafkaLogLevel::Debug) || is_said_elsewhere {
        debug!(target: "librdkafka", facility, "{message}");
        return;
    }
    let Some(repeated) = limiter::admit(message) else { return };
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
    if let Some(repeated) = limiter::admit(reason) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_cut_off() {
        assert_eq!(without_thread("[thrd:app]: configuration"), "configuration");
        assert_eq!(without_thread("plain"), "plain");
    }
}
