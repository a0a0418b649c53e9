//! Asks a cluster what it has, and knows why where no broker answers.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::metadata::Metadata;

use super::config::Isolation;
use super::login::Login;
use super::settings::Settings;
use super::topics::{CheckError, TopicProblem};
use super::{context, properties, remedies};

/// A queue that gave nothing for so long is empty; at once it may only have given a line of the log.
const DRAINED: Duration = Duration::from_millis(20);

/// A client for questions.
pub(super) struct Probe {
    client: BaseConsumer<Reasons>,
    servers: String,
}

/// Keeps the last error of a connection. librdkafka's calls themselves only say that they failed.
#[derive(Debug)]
struct Reasons {
    login: Login,
    last: Mutex<Option<String>>,
}

impl Reasons {
    fn keep(&self, reason: &str) {
        let reason = remedies::explained(context::without_thread(reason));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

impl ClientContext for Reasons {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.login.token()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // A connection that the broker closes is no error to librdkafka, which may try again.
        if facility == "FAIL" {
            self.keep(message);
        }
        context::log(level, facility, message);
    }

    /// Not logged: it is part of the answer.
    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() != Some(Code::AllBrokersDown) {
            self.keep(reason);
        }
    }

    fn stats_raw(&self, _: &[u8]) {}
}

impl ConsumerContext for Reasons {}

impl Probe {
    /// # Errors
    /// `Wrong` when the client can't be made.
    pub(super) fn new(settings: &Settings) -> Result<Self, CheckError> {
        let mut config = settings.prober(Isolation::ReadCommitted);
        // A listener that wants TLS just closes a connection without.
        config.set("log.connection.close", "true");
        let reasons = Reasons { login: Login::silent(settings), last: Mutex::default() };
        let client = BaseConsumer::from_config_and_context(&config, reasons)
            .map_err(|error| CheckError::Wrong(vec![TopicProblem::Client(properties::why_not_made(&error))]))?;
        Ok(Self { client, servers: settings.bootstrap_servers.clone() })
    }

    /// Brokers, and the topics that this principal may see.
    ///
    /// # Errors
    /// `Unavailable`, with what keeps the client from its brokers where that is known.
    pub(super) fn metadata(&self, timeout: Duration) -> Result<Metadata, CheckError> {
        let login = &self.client.context().login;
        login.await_answer(|timeout| drop(self.client.poll(timeout)));
        if let Some(reason) = login.failure() {
            return Err(CheckError::Unavailable { servers: self.servers.clone(), reason });
        }
        let metadata = self.client.fetch_metadata(None, timeout);
        // What happened on the way comes by polling.
        while self.client.poll(DRAINED).is_some() {}
        let reason = self.client.context().last.lock().unwrap_or_else(PoisonError::into_inner).take();
        metadata.map_err(|error| CheckError::Unavailable {
            servers: self.servers.clone(),
            reason: reason.unwrap_or_else(|| error.to_string()),
        })
    }

    /// Why the principal is not shown a topic; `None` where it simply is not there. The consumer that this is makes no
    /// broker create it.
    pub(super) fn refusal(&self, topic: &str, timeout: Duration) -> Option<Code> {
        let metadata = self.client.fetch_metadata(Some(topic), timeout).ok()?;
        let code = metadata.topics().first()?.error().map(Code::from)?;
        (code == Code::TopicAuthorizationFailed).then_some(code)
    }

    pub(super) fn cluster_id(&self, timeout: Duration) -> Option<String> {
        self.client.client().fetch_cluster_id(timeout)
    }
}
