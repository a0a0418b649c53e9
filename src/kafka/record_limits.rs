//! How large a record may be on each topic that is written to: the topic's own `max.message.bytes`.
//!
//! A record counts as it is, before compression, which only makes it smaller.

use std::thread;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::error::RDKafkaErrorCode as Code;
use tracing::warn;

use super::client::Deadline;
use super::context::Logging;
use super::settings::{Settings, Topics};
use super::topics::{TopicProblem, block_on};

/// `max.message.bytes` where nobody has set it.
const KAFKA_DEFAULT: usize = 1_048_588;
/// No limit is taken for lower than this, whatever is refused.
const LEAST: usize = 16 << 10;
/// What a batch of one record has beside key, value and headers, at most: 61 bytes of its own and 36 of the record's.
const RECORD_OVERHEAD: usize = 128;
/// What a header has beside name and value, at most.
const HEADER_OVERHEAD: usize = 10;
/// Between two looks at a topic that not every broker knows yet.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Time that a question to a broker needs at most, if it is to be answered at all.
const LAST_TRY: Duration = Duration::from_secs(1);

/// The largest record that each topic takes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordLimits {
    pub bundles: usize,
    pub dead_letters: usize,
    pub changelog: usize,
}

/// The largest record that can't be cut, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Indivisible {
    pub bundles: usize,
    pub changelog: usize,
}

impl RecordLimits {
    /// Where the topics can't be asked: the client's `message.max.bytes` where it is set, else Kafka's default.
    #[must_use]
    pub fn unasked(settings: &Settings) -> Self {
        let set = settings.properties.get("message.max.bytes").and_then(|bytes| bytes.parse().ok());
        let bytes = set.unwrap_or(KAFKA_DEFAULT).max(LEAST);
        Self { bundles: bytes, dead_letters: bytes, changelog: bytes }
    }

    /// Asks each topic. One that does not tell, or that the principal may not ask, keeps the limit of [`Self::unasked`].
    pub(super) fn ask(settings: &Settings, topics: &Topics, admin: &AdminClient<Logging>, deadline: Deadline) -> Self {
        let mut limits = Self::unasked(settings);
        for (topic, limit) in [
            (&topics.bundles, &mut limits.bundles),
            (&topics.dead_letters, &mut limits.dead_letters),
            (&topics.changelog, &mut limits.changelog),
        ] {
            match max_message_bytes(admin, topic, deadline) {
                Ok(bytes) => *limit = bytes.max(LEAST),
                Err(reason) => {
                    warn!(
                        topic,
                        reason,
                        bytes = *limit,
                        "max.message.bytes of the topic can't be read; this value is assumed"
                    );
                }
            }
        }
        limits
    }

    /// Topics that can't take what can't be cut.
    pub(super) fn problems(&self, topics: &Topics, indivisible: Indivisible) -> Vec<TopicProblem> {
        let of = |topic: &str, bytes: usize, needed: usize| {
            let needed = needed + RECORD_OVERHEAD;
            (bytes < needed).then(|| TopicProblem::RecordsTooSmall { topic: topic.to_owned(), bytes, needed })
        };
        let bundles = of(&topics.bundles, self.bundles, indivisible.bundles);
        bundles.into_iter().chain(of(&topics.changelog, self.changelog, indivisible.changelog)).collect()
    }

    /// Takes a topic's limit for a fourth of what it was, after it refused a record: a few refusals lead to what it takes.
    pub(super) fn lower(&mut self, topic: &str, topics: &Topics) {
        let limit = match topic {
            topic if topic == topics.bundles => &mut self.bundles,
            topic if topic == topics.dead_letters => &mut self.dead_letters,
            topic if topic == topics.changelog => &mut self.changelog,
            _ => return,
        };
        *limit = (*limit / 4).max(LEAST);
    }

    /// The bytes of a batch that every topic takes.
    pub(super) fn batch(&self) -> usize {
        self.bundles.min(self.dead_letters).min(self.changelog)
    }
}

/// What is left of `limit` for value and headers beside a key.
pub(super) fn room(limit: usize, key_bytes: usize) -> usize {
    limit.saturating_sub(RECORD_OVERHEAD + key_bytes)
}

/// What a header takes.
pub(super) fn header_bytes(name: &str, value: Option<&[u8]>) -> usize {
    name.len() + value.map_or(0, <[u8]>::len) + HEADER_OVERHEAD
}

fn max_message_bytes(admin: &AdminClient<Logging>, topic: &str, deadline: Deadline) -> Result<usize, String> {
    loop {
        let options = AdminOptions::new().request_timeout(Some(deadline.remaining()));
        let resource = [ResourceSpecifier::Topic(topic)];
        let described = match block_on(admin.describe_configs(&resource, &options), deadline) {
            Some(Ok(described)) => described,
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("no answer".into()),
        };
        match described.into_iter().next() {
            Some(Ok(resource)) => {
                let bytes = resource.get("max.message.bytes").and_then(|entry| entry.value.clone());
                return bytes.and_then(|bytes| bytes.parse().ok()).ok_or_else(|| "no max.message.bytes".into());
            }
            Some(Err(code @ Code::TopicAuthorizationFailed)) => {
                return Err(format!("{code}: the principal needs DescribeConfigs on it"));
            }
            // A new topic needs a moment to be known to every broker.
            _ if deadline.remaining() > LAST_TRY => thread::sleep(LOOK_PAUSE),
            Some(Err(code)) => return Err(code.to_string()),
            None => return Err("no answer".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::properties::tests::settings;
    use super::*;

    #[test]
    fn a_limit_is_lowered_down_to_the_least_and_that_of_its_topic_only() {
        let topics = Topics::default();
        let mut limits = RecordLimits::unasked(&settings(&[]));
        limits.lower(&topics.bundles, &topics);
        let expected = RecordLimits { bundles: 262_147, dead_letters: KAFKA_DEFAULT, changelog: KAFKA_DEFAULT };
        assert_eq!(limits, expected);
        assert_eq!(limits.batch(), 262_147);
        limits.lower(&topics.events, &topics);
        assert_eq!(limits, expected);
        (0..2).for_each(|_| limits.lower(&topics.bundles, &topics));
        assert_eq!(limits, RecordLimits { bundles: LEAST, ..expected });
    }

    #[test]
    fn a_topic_is_refused_that_can_not_take_what_can_not_be_cut() {
        let topics = Topics::default();
        let limits = RecordLimits::unasked(&settings(&[("message.max.bytes", "100000")]));
        assert_eq!(limits.problems(&topics, Indivisible { bundles: 99_872, changelog: 99_872 }), []);
        let problems = limits.problems(&topics, Indivisible { bundles: 1, changelog: 99_873 });
        let expected = TopicProblem::RecordsTooSmall { topic: topics.changelog, bytes: 100_000, needed: 100_001 };
        assert_eq!(problems, [expected]);
    }
}
