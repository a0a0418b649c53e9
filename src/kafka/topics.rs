//! What must be true of the cluster before the service starts, and making it so where that is allowed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigEntry, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{IsError, KafkaError, RDKafkaErrorCode as Code};
use thiserror::Error;
use tracing::{debug, info, warn};

use super::client::Deadline;
use super::context::Logging;
use super::probe::Probe;
use super::record_limits::{Indivisible, RecordLimits};
use super::settings::{Settings, Topics};
use super::{durability, properties};

/// Time that a question to a broker needs at most, if it is to be answered at all.
const LAST_TRY: Duration = Duration::from_secs(1);

/// The open segment is never compacted, and a restore reads all of it; as small as Kafka Streams makes it.
const CHANGELOG_SEGMENT_BYTES: &str = "52428800";

/// Why the service can't start on this cluster.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CheckError {
    /// The broker does not answer; it may later.
    #[error("no way into kafka at {servers}: {reason}")]
    Unavailable { servers: String, reason: String },
    /// It answers, and something is wrong that only a person can mend.
    #[error("{}", all(.0))]
    Wrong(Vec<TopicProblem>),
}

/// What is wrong with a topic, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TopicProblem {
    #[error("topics.{one} and topics.{other} are both \"{topic}\": give each a topic of its own")]
    Shared { one: &'static str, other: &'static str, topic: String },
    #[error("topic {topic} does not exist: create it, or set topics.create = true")]
    Missing { topic: String },
    #[error(
        "topic {changelog} has {changelog_partitions} partitions and {events} has {events_partitions}: they must be equal; {}",
        partitions_remedy(changelog, *changelog_partitions, events, *events_partitions)
    )]
    Partitions { changelog: String, changelog_partitions: usize, events: String, events_partitions: usize },
    #[error(
        "topic {topic} has cleanup.policy={policy}, which loses the state of open sessions: \
         set cleanup.policy=compact on it"
    )]
    NotCompacted { topic: String, policy: String },
    #[error("the configuration of topic {topic} can't be read: {reason}: the principal needs DescribeConfigs on it")]
    Undescribed { topic: String, reason: String },
    #[error("topic {topic} can't be used: {reason}: the principal needs {rights} on it")]
    Refused { topic: String, reason: String, rights: &'static str },
    #[error("{0}")]
    Denied(String),
    #[error(
        "topic {topic} has max.message.bytes={bytes}, and one record of it may need {needed}: raise it to that, or lower \
         text_bytes, stages, interval_values or error_codes in [limits]"
    )]
    RecordsTooSmall { topic: String, bytes: usize, needed: usize },
    #[error("topic {topic} can't be created: {reason}")]
    NotCreated { topic: String, reason: String },
    #[error("the kafka client can't be made: {0}")]
    Client(String),
}

fn partitions_remedy(changelog: &str, changelog_partitions: usize, events: &str, events_partitions: usize) -> String {
    if changelog_partitions < events_partitions {
        // Each task writes to its own partition by number, so what is there stays where it belongs.
        format!("add partitions to {changelog} until it has {events_partitions}, which loses nothing")
    } else {
        format!(
            "recreate {changelog} (which loses open sessions), or add partitions to {events} while no session is open"
        )
    }
}

/// What the cluster says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterInfo {
    pub cluster_id: Option<String>,
    pub brokers: usize,
    /// Topics that this principal may see, with their partitions.
    pub topics: BTreeMap<String, usize>,
}

/// Asks the cluster for its metadata.
///
/// # Errors
/// `Unavailable` when no broker answers within `timeout`, `Wrong` when the client can't be made.
pub fn connect(settings: &Settings, timeout: Duration) -> Result<ClusterInfo, CheckError> {
    let deadline = Deadline::after(timeout);
    let probe = Probe::new(settings)?;
    let metadata = probe.metadata(deadline.remaining())?;
    Ok(ClusterInfo {
        cluster_id: probe.cluster_id(deadline.remaining()),
        brokers: metadata.brokers().len(),
        topics: metadata.topics().iter().map(|topic| (topic.name().to_owned(), topic.partitions().len())).collect(),
    })
}

/// Checks the four topics, and makes those that are missing where `topics.create` allows it. The embedded broker does not
/// answer questions about a topic's configuration: with `embedded` they are not asked. `indivisible` is what the topics
/// have to take. Returns what they take.
///
/// # Errors
/// `Unavailable` when the broker does not answer within `timeout`, `Wrong` with everything that must be mended.
pub fn check_topics(
    settings: &Settings,
    topics: &Topics,
    indivisible: Indivisible,
    embedded: bool,
    timeout: Duration,
) -> Result<RecordLimits, CheckError> {
    wrong(shared_names(topics))?;
    let deadline = Deadline::after(timeout);
    let admin = admin(settings)?;
    let probe = Probe::new(settings)?;
    let mut found = look(settings, topics, &probe, deadline)?;
    if topics.create && found.values().any(Option::is_none) {
        create(settings, topics, admin.as_ref(), &found, deadline)?;
        found = look(settings, topics, &probe, deadline)?;
        // A new topic needs a moment to be known to every broker.
        while found.values().any(Option::is_none) && !deadline.passed() {
            thread::sleep(Duration::from_millis(50));
            found = look(settings, topics, &probe, deadline)?;
        }
        if let Some((topic, _)) = found.iter().find(|(_, partitions)| partitions.is_none()) {
            // Nothing is wrong with it: it is looked for again.
            let reason = format!("topic {topic} was created and is not there yet");
            return Err(CheckError::Unavailable { servers: settings.bootstrap_servers.clone(), reason });
        }
    }
    let missing = found.iter().filter(|(_, partitions)| partitions.is_none());
    wrong(missing.map(|(topic, _)| TopicProblem::Missing { topic: topic.clone() }).collect())?;

    let partitions = |topic: &str| found.get(topic).copied().flatten().unwrap_or(0);
    let mut problems = Vec::new();
    let mut limits = RecordLimits::unasked(settings);
    let mut wanting = Vec::new();
    let (events, changelog) = (partitions(&topics.events), partitions(&topics.changelog));
    if events != changelog {
        problems.push(TopicProblem::Partitions {
            changelog: topics.changelog.clone(),
            changelog_partitions: changelog,
            events: topics.events.clone(),
            events_partitions: events,
        });
    }
    match admin {
        _ if embedded => {
            debug!(
                topic = topics.changelog,
                "the embedded broker can't describe topics: cleanup.policy is not checked"
            );
        }
        Some(admin) => {
            match describe_changelog(settings, topics, &admin, deadline)? {
                Ok(config) => {
                    let brokers = replicas(topics, &probe, deadline, &mut wanting)?;
                    wanting.extend(durability::of_changelog(&topics.changelog, brokers, &config));
                    problems.extend(judge_policy(
                        &topics.changelog,
                        config.get("cleanup.policy").map_or("", String::as_str),
                    ));
                }
                Err(reason) => problems.push(TopicProblem::Undescribed { topic: topics.changelog.clone(), reason }),
            }
            limits = RecordLimits::ask(settings, topics, &admin, deadline);
            problems.extend(limits.problems(topics, indivisible));
        }
        None => {
            warn!(topic = topics.changelog, "cleanup.policy is not checked: it can't be asked for with OAUTHBEARER")
        }
    }
    wrong(problems)?;
    wanting.iter().for_each(|text| warn!("{text}"));
    Ok(limits)
}

/// The number of brokers; adds what is wanting in the replicas of the topics.
fn replicas(
    topics: &Topics,
    probe: &Probe,
    deadline: Deadline,
    wanting: &mut Vec<String>,
) -> Result<usize, CheckError> {
    let metadata = probe.metadata(deadline.remaining().max(Duration::from_millis(100)))?;
    let of = |name: &str| {
        let topic = metadata.topics().iter().find(|topic| topic.name() == name);
        topic.and_then(|topic| topic.partitions().iter().map(|partition| partition.replicas().len()).min())
    };
    let known = names(topics).into_iter().filter_map(|(_, name)| of(name).map(|replicas| (name, replicas))).collect();
    let brokers = metadata.brokers().len();
    wanting.extend(durability::of_replicas(brokers, &known));
    Ok(brokers)
}

/// The client for what only an admin client can do; none where it could never log in.
fn admin(settings: &Settings) -> Result<Option<AdminClient<Logging>>, CheckError> {
    if settings.uses_token() {
        return Ok(None);
    }
    let admin = AdminClient::from_config_and_context(&settings.admin(), Logging::default());
    let not_made = |error| CheckError::Wrong(vec![TopicProblem::Client(properties::why_not_made(&error))]);
    admin.map(Some).map_err(not_made)
}

/// Partitions of each of the four topics; `None` for one that is missing.
fn look(
    settings: &Settings,
    topics: &Topics,
    probe: &Probe,
    deadline: Deadline,
) -> Result<BTreeMap<String, Option<usize>>, CheckError> {
    let metadata = probe.metadata(deadline.remaining().max(Duration::from_millis(100)))?;
    let mut problems = Vec::new();
    let mut found = BTreeMap::new();
    for (key, name) in names(topics) {
        // Each of them implies Describe.
        let rights = match key {
            "events" => "Read",
            "dead_letters" => "Write",
            _ => "Read and Write",
        };
        let topic = metadata.topics().iter().find(|topic| topic.name() == name);
        let code = topic.and_then(|topic| topic.error()).filter(IsError::is_error).map(Code::from);
        match (topic, code) {
            (Some(topic), None) => found.insert(name.to_owned(), Some(topic.partitions().len())),
            (None, _) | (_, Some(Code::UnknownTopicOrPartition | Code::UnknownTopic)) => {
                match probe.refusal(name, deadline.remaining()) {
                    Some(code) => {
                        problems.push(TopicProblem::Refused { topic: name.into(), reason: code.to_string(), rights });
                    }
                    None => drop(found.insert(name.to_owned(), None)),
                }
                None
            }
            (_, Some(Code::LeaderNotAvailable)) => {
                let reason = format!("topic {name} has no leader");
                return Err(CheckError::Unavailable { servers: settings.bootstrap_servers.clone(), reason });
            }
            (_, Some(code)) => {
                problems.push(TopicProblem::Refused { topic: name.to_owned(), reason: code.to_string(), rights });
                None
            }
        };
    }
    wrong(problems).map(|()| found)
}

fn create(
    settings: &Settings,
    topics: &Topics,
    admin: Option<&AdminClient<Logging>>,
    found: &BTreeMap<String, Option<usize>>,
    deadline: Deadline,
) -> Result<(), CheckError> {
    // The two that must have as many partitions as each other follow the one that is there.
    let partitions = |name: &str| {
        let twin = if name == topics.events { &topics.changelog } else { &topics.events };
        let twin = found.get(twin).copied().flatten().and_then(|n| i32::try_from(n).ok());
        let paired = name == topics.events || name == topics.changelog;
        twin.filter(|_| paired).unwrap_or(topics.partitions)
    };
    let new: Vec<NewTopic<'_>> = found
        .iter()
        .filter(|(_, partitions)| partitions.is_none())
        .map(|(name, _)| {
            let topic = NewTopic::new(name, partitions(name), TopicReplication::Fixed(topics.replication_factor));
            if *name != topics.changelog {
                return topic;
            }
            topic.set("cleanup.policy", "compact").set("segment.bytes", CHANGELOG_SEGMENT_BYTES)
        })
        .collect();
    let Some(admin) = admin else {
        let reason = "it can't be asked for with OAUTHBEARER: have it made, and set topics.create = false";
        let not_created =
            |topic: &NewTopic<'_>| TopicProblem::NotCreated { topic: topic.name.into(), reason: reason.into() };
        return wrong(new.iter().map(not_created).collect());
    };
    let options =
        AdminOptions::new().request_timeout(Some(deadline.remaining())).operation_timeout(Some(deadline.remaining()));
    let results = block_on(admin.create_topics(&new, &options), deadline)
        .ok_or(KafkaError::AdminOp(Code::OperationTimedOut))
        .flatten()
        .map_err(|error| unavailable(settings, &error))?;
    let mut problems = Vec::new();
    for result in results {
        match result {
            Ok(topic) => info!(topic, "topic created"),
            Err((_, Code::TopicAlreadyExists)) => {}
            Err((topic, code @ (Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed))) => {
                let reason = format!("{code}: the principal needs Create on it");
                problems.push(TopicProblem::NotCreated { topic, reason });
            }
            Err((topic, code)) => problems.push(TopicProblem::NotCreated { topic, reason: code.to_string() }),
        }
    }
    wrong(problems)
}

/// The changelog's configuration, or why there is none in the answer.
fn describe_changelog(
    settings: &Settings,
    topics: &Topics,
    admin: &AdminClient<Logging>,
    deadline: Deadline,
) -> Result<Result<BTreeMap<String, String>, String>, CheckError> {
    let topic = &topics.changelog;
    let mut described = describe(settings, topic, admin, deadline)?;
    // A new topic needs a moment to be known to every broker. One that does not know it describes nothing, and says no
    // more than one that may not tell. The last try is to have the time for an answer.
    while described.is_err() && deadline.remaining() > LAST_TRY {
        thread::sleep(Duration::from_millis(50));
        described = describe(settings, topic, admin, deadline)?;
    }
    Ok(described)
}

fn describe(
    settings: &Settings,
    topic: &str,
    admin: &AdminClient<Logging>,
    deadline: Deadline,
) -> Result<Result<BTreeMap<String, String>, String>, CheckError> {
    let options = AdminOptions::new().request_timeout(Some(deadline.remaining()));
    let resource = [ResourceSpecifier::Topic(topic)];
    let described = block_on(admin.describe_configs(&resource, &options), deadline)
        .ok_or(KafkaError::AdminOp(Code::OperationTimedOut))
        .flatten()
        .map_err(|error| unavailable(settings, &error))?;
    Ok(match described.into_iter().next() {
        Some(Ok(resource)) => {
            let value = |entry: ConfigEntry| entry.value.map(|value| (entry.name, value));
            let config: BTreeMap<_, _> = resource.entries.into_iter().filter_map(value).collect();
            if config.contains_key("cleanup.policy") { Ok(config) } else { Err("no cleanup.policy".into()) }
        }
        Some(Err(code)) => Err(code.to_string()),
        None => Err("no answer".into()),
    })
}

fn judge_policy(topic: &str, policy: &str) -> Option<TopicProblem> {
    let has = |word| policy.split(',').any(|part| part.trim() == word);
    if !has("compact") {
        return Some(TopicProblem::NotCompacted { topic: topic.into(), policy: policy.into() });
    }
    if has("delete") {
        warn!(topic, policy, "sessions that stay open past the topic's retention lose their state");
    }
    None
}

/// Names that stand for two topics: dead letters read as events, for one, would loop for ever.
fn shared_names(topics: &Topics) -> Vec<TopicProblem> {
    let names = names(topics);
    let mut problems = Vec::new();
    for (index, (other, topic)) in names.iter().enumerate() {
        if let Some((one, _)) = names[..index].iter().find(|(_, earlier)| earlier == topic) {
            problems.push(TopicProblem::Shared { one, other, topic: (*topic).to_owned() });
        }
    }
    problems
}

fn names(topics: &Topics) -> [(&'static str, &str); 4] {
    [
        ("events", &topics.events),
        ("bundles", &topics.bundles),
        ("dead_letters", &topics.dead_letters),
        ("changelog", &topics.changelog),
    ]
}

fn wrong(problems: Vec<TopicProblem>) -> Result<(), CheckError> {
    if problems.is_empty() { Ok(()) } else { Err(CheckError::Wrong(problems)) }
}

fn all(problems: &[TopicProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn unavailable(settings: &Settings, error: &KafkaError) -> CheckError {
    CheckError::Unavailable { servers: settings.bootstrap_servers.clone(), reason: error.to_string() }
}

/// Waits for an admin call on this thread; `None` past the deadline.
pub(super) fn block_on<F: Future>(future: F, deadline: Deadline) -> Option<F::Output> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if deadline.passed() {
            return None;
        }
        thread::park_timeout(deadline.remaining());
    }
}
