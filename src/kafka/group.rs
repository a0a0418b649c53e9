//! The callbacks of a group member's poll: rebalances are kept, statistics read.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};
use tracing::debug;

use super::login::Login;
use super::{context, statistics, topic_id};
use crate::ids::{Partition, TopicId};
use crate::worker::{Ends, QueuedBytes};

/// What the group asked for.
#[derive(Debug)]
pub(super) enum Rebalance {
    Assign(Vec<Partition>),
    Revoke { partitions: Vec<Partition>, lost: bool },
}

/// The callbacks of a poll.
pub(super) struct Group {
    login: Login,
    topic: String,
    pub(super) asked: Mutex<VecDeque<Rebalance>>,
    pub(super) ends: Mutex<BTreeMap<Partition, Ends>>,
    /// Of the events topic.
    pub(super) topic_id: Mutex<Option<TopicId>>,
    /// What librdkafka says for debugging was asked for.
    debugs: bool,
    /// As of the last statistics.
    is_connected: AtomicBool,
    /// Bytes fetched and not yet polled.
    pub(super) fetched: QueuedBytes,
    /// The member was out of reach of its group for longer than that waits, and has not been given partitions since.
    pub(super) session_timed_out: AtomicBool,
    /// From now on rebalances are answered at once: the client waits for them as it goes.
    pub(super) closing: AtomicBool,
}

impl Group {
    pub(super) fn new(login: Login, topic: &str, debugs: bool) -> Self {
        Self {
            login,
            topic: topic.to_owned(),
            asked: Mutex::default(),
            ends: Mutex::default(),
            topic_id: Mutex::default(),
            debugs,
            is_connected: AtomicBool::new(false),
            fetched: QueuedBytes::default(),
            session_timed_out: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Whether the brokers that it needs answer, and the group has not missed it.
    pub(super) fn is_connected(&self) -> bool {
        self.is_connected.load(Ordering::Acquire) && !self.session_timed_out.load(Ordering::Acquire)
    }

    /// For a client in the place of this one's.
    pub(super) fn renewed(&self) -> Self {
        self.fetched.set(0);
        Self { fetched: self.fetched.clone(), ..Self::new(self.login.clone(), &self.topic, self.debugs) }
    }
}

impl ClientContext for Group {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.login.token()
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if matches!(level, RDKafkaLogLevel::Debug) {
            if let Some(id) = topic_id::told(context::without_thread(message), &self.topic) {
                *locked(&self.topic_id) = Some(id);
            }
            if !self.debugs {
                return;
            }
        }
        // librdkafka reports an expired session only by this line of its log.
        if facility == "SESSTMOUT" {
            self.session_timed_out.store(true, Ordering::Release);
        }
        context::log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        context::log_error(&error, reason);
    }

    fn stats_raw(&self, json: &[u8]) {
        if let Some(seen) = statistics::read(json, &self.topic) {
            *locked(&self.ends) = seen.ends;
            self.fetched.set(seen.fetched_bytes);
            self.is_connected.store(seen.is_connected, Ordering::Release);
        }
    }
}

impl ConsumerContext for Group {
    fn rebalance(&self, client: &BaseConsumer<Self>, kind: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let assigns = kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Acquire) {
            let answered = if assigns { accept_none(client) } else { release_all(client) };
            if let Err(error) = answered {
                debug!(%error, "rebalance while closing");
            }
            return;
        }
        if assigns {
            self.session_timed_out.store(false, Ordering::Release);
        }
        let partitions = list.elements().iter().map(|element| Partition(element.partition())).collect();
        locked(&self.asked).push_back(if assigns {
            Rebalance::Assign(partitions)
        } else {
            Rebalance::Revoke { partitions, lost: client.assignment_lost() }
        });
    }
}

pub(super) fn is_cooperative(client: &BaseConsumer<Group>) -> bool {
    matches!(client.rebalance_protocol(), RebalanceProtocol::Cooperative)
}

pub(super) fn accept_none(client: &BaseConsumer<Group>) -> KafkaResult<()> {
    let none = TopicPartitionList::new();
    if is_cooperative(client) { client.incremental_assign(&none) } else { client.assign(&none) }
}

pub(super) fn release_all(client: &BaseConsumer<Group>) -> KafkaResult<()> {
    if is_cooperative(client) { client.incremental_unassign(&client.assignment()?) } else { client.unassign() }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
