//! Whether the principal may do all that the service does, as far as that can be asked without writing a record or
//! joining the group.
//!
//! Brokers look at the permission first, so a record that they refuse for another reason tells that it could be written:
//! one with an `acks` that does not exist. It has no key either, which a compacted topic refuses too.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use rdkafka::client::OAuthToken;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientContext, Message, Offset, TopicPartitionList};

use super::client::{Deadline, drop_within};
use super::context::{self, Logging};
use super::group::locked;
use super::login::Login;
use super::producer::Producer;
use super::record_limits::RecordLimits;
use super::settings::{DeadLetterPayload, Settings, Topics};
use super::topics::{CheckError, TopicProblem};
use super::{errors, properties};
use crate::worker::{BrokerError, ProcessingGuarantee, Producer as _};

const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const ONE_LOOK: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);

/// Of the transactional id, in the place of an instance, of which none is called so: no running process is fenced.
const INSTANCE: &str = "check/";

/// Checks the permissions on the topics, which are there, on the group, and on transactional ids.
///
/// # Errors
/// `Wrong` with every permission that is missing, `Unavailable` where there was no answer within `timeout`.
pub fn check_permissions(
    settings: &Settings,
    topics: &Topics,
    is_transactional: bool,
    timeout: Duration,
) -> Result<(), CheckError> {
    let asked = Asked { settings, topics, deadline: Deadline::after(timeout) };
    let mut denied = asked.to_read()?;
    denied.extend(asked.to_write()?);
    if is_transactional {
        denied.extend(asked.to_register()?);
    }
    if denied.is_empty() {
        return Ok(());
    }
    Err(CheckError::Wrong(denied.into_iter().map(TopicProblem::Denied).collect()))
}

struct Asked<'a> {
    settings: &'a Settings,
    topics: &'a Topics,
    deadline: Deadline,
}

impl Asked<'_> {
    /// Read on the group and on topics: a look at their ends.
    fn to_read(&self) -> Result<BTreeSet<String>, CheckError> {
        let Topics { events, bundles, changelog, .. } = self.topics;
        let group = &self.settings.group_id;
        let client = BaseConsumer::from_config_and_context(&self.settings.reader("check"), Logging::of(self.settings));
        let client = client.map_err(|error| not_made(&error))?;
        client.context().login.await_answer(|timeout| drop(client.poll(timeout)));
        let mut denied = BTreeSet::new();
        // One at a time: an error does not tell which topic it is of.
        for topic in [events, bundles, changelog] {
            let mut end = TopicPartitionList::new();
            end.add_partition_offset(topic, 0, Offset::End).map_err(|error| not_made(&error))?;
            client.assign(&end).map_err(|error| not_made(&error))?;
            self.answer(&client, topic, &mut denied)?;
        }
        // That of the group comes with it all, unless its coordinator is slower than the leaders of the topics.
        while !denied.iter().any(|text| text.contains("on group ")) {
            match client.committed_offsets(client.assignment().map_err(|error| not_made(&error))?, ONE_LOOK) {
                Ok(_) => break,
                Err(error) if self.deadline.passed() => return Err(self.unanswered(&format!("group {group}: {error}"))),
                Err(error) => {
                    if let BrokerError::Denied(text) = errors::lookup(&format!("on group {group}"), &error) {
                        denied.insert(text);
                    } else if let Some(Err(error)) = client.poll(POLL)
                        && error.rdkafka_error_code() == Some(Code::GroupAuthorizationFailed)
                    {
                        denied.insert(errors::consumption(&error, events, group).to_string());
                    }
                }
            }
        }
        drop_within(client, CLOSE_TIMEOUT, "check reader");
        Ok(denied)
    }

    /// Waits for what the first fetch of a topic brings, records or not; notes what is denied.
    fn answer(
        &self,
        client: &BaseConsumer<Logging>,
        topic: &str,
        denied: &mut BTreeSet<String>,
    ) -> Result<(), CheckError> {
        while !self.deadline.passed() {
            match client.poll(POLL) {
                None => {}
                Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                Some(Err(error)) => {
                    if let BrokerError::Denied(text) = errors::consumption(&error, topic, &self.settings.group_id) {
                        denied.insert(text);
                    }
                    if error.rdkafka_error_code() == Some(Code::TopicAuthorizationFailed) {
                        return Ok(());
                    }
                }
            }
        }
        Err(self.unanswered(&format!("topic {topic}: no answer")))
    }

    /// Write on topics.
    fn to_write(&self) -> Result<BTreeSet<String>, CheckError> {
        let Topics { bundles, dead_letters, changelog, .. } = self.topics;
        let mut config = self.settings.producer(0, false, &RecordLimits::unasked(self.settings));
        config.set("enable.idempotence", "false").set("acks", "2").set("message.timeout.ms", "10000");
        let verdicts = Verdicts { login: Login::of(self.settings), of: Mutex::default() };
        let client = BaseProducer::from_config_and_context(&config, verdicts).map_err(|error| not_made(&error))?;
        let topics = [bundles, dead_letters, changelog];
        for topic in topics {
            let record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(&[]);
            client.send(record).map_err(|(error, _)| not_made(&error))?;
        }
        while locked(&client.context().of).len() < topics.len() && !self.deadline.passed() {
            client.poll(POLL);
        }
        let verdicts = locked(&client.context().of).clone();
        drop_within(client, CLOSE_TIMEOUT, "check writer");
        let mut denied = BTreeSet::new();
        for topic in topics {
            match verdicts.get(topic) {
                Some(Code::InvalidRequiredAcks) => {}
                Some(code @ Code::TopicAuthorizationFailed) => {
                    denied.insert(format!("{code}: the principal needs Write on topic {topic}"));
                }
                Some(code) => return Err(self.unanswered(&format!("topic {topic}: {code}"))),
                None => return Err(self.unanswered(&format!("topic {topic}: no answer"))),
            }
        }
        Ok(denied)
    }

    /// Write on transactional ids.
    fn to_register(&self) -> Result<Option<String>, CheckError> {
        let settings = Settings { instance: INSTANCE.to_owned(), ..self.settings.clone() };
        let guarantee = ProcessingGuarantee::ExactlyOnce;
        let producer = Producer::new(
            &settings,
            self.topics,
            0,
            guarantee,
            DeadLetterPayload::Drop,
            RecordLimits::unasked(&settings),
        );
        let mut producer =
            producer.map_err(|error| CheckError::Wrong(vec![TopicProblem::Client(error.to_string())]))?;
        loop {
            match producer.init_transactions() {
                Ok(()) => return Ok(None),
                Err(BrokerError::Retriable(_)) if !self.deadline.passed() => {}
                Err(BrokerError::Retriable(text)) => return Err(self.unanswered(&text)),
                Err(error) => return Ok(Some(error.to_string())),
            }
        }
    }

    fn unanswered(&self, reason: &str) -> CheckError {
        CheckError::Unavailable { servers: self.settings.bootstrap_servers.clone(), reason: reason.to_owned() }
    }
}

fn not_made(error: &KafkaError) -> CheckError {
    CheckError::Wrong(vec![TopicProblem::Client(properties::why_not_made(error))])
}

/// What became of the record for each topic.
struct Verdicts {
    login: Login,
    of: Mutex<BTreeMap<String, Code>>,
}

impl ClientContext for Verdicts {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.login.token()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        context::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        context::log_error(&error, reason);
    }
}

impl ProducerContext for Verdicts {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (topic, code) = match result {
            Ok(message) => (message.topic(), Code::NoError),
            Err((error, message)) => (message.topic(), error.rdkafka_error_code().unwrap_or(Code::Unknown)),
        };
        locked(&self.of).insert(topic.to_owned(), code);
    }
}
