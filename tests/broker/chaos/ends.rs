//! Where topics end for those who wait for open transactions and for those who don't, and how far the group has come.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::service::Deployment;
use crate::topics::config;
use crate::wait::PATIENCE;

const ANSWER: Duration = Duration::from_secs(5);
/// The markers of a transaction follow its commit by a moment. Less than the broker's own end of what is left open.
const MARKERS: Duration = Duration::from_secs(5);

/// Asks for the ends of a deployment's topics.
pub struct Ends {
    /// Its end of a partition is the last stable offset.
    stable: BaseConsumer,
    /// Its end of a partition is the high watermark.
    high: BaseConsumer,
    events: String,
    /// What the transactions write to.
    outputs: Vec<String>,
}

/// A partition whose readers wait for an open transaction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Blocked {
    pub topic: String,
    pub partition: i32,
    /// Where they stand.
    pub stable: i64,
}

impl Ends {
    pub fn of(deployment: &Deployment) -> Self {
        let client = |isolation: &str| {
            let mut config = config(&deployment.bootstrap);
            // The group's own name, to ask for its offsets; it is never joined.
            config.set("group.id", &deployment.name).set("isolation.level", isolation);
            config.create().expect("a consumer")
        };
        Self {
            stable: client("read_committed"),
            high: client("read_uncommitted"),
            events: deployment.topic("events"),
            outputs: ["bundles", "changelog", "dead-letters"].map(|kind| deployment.topic(kind)).into(),
        }
    }

    /// The partitions of bundles, changelog and dead letters with an open transaction.
    ///
    /// # Errors
    /// While a broker does not answer.
    pub fn blocked(&self) -> KafkaResult<BTreeSet<Blocked>> {
        self.blocked_of(&self.outputs)
    }

    /// By partition of a topic, how many records stand behind its last stable offset, markers counted too.
    ///
    /// # Errors
    /// While a broker does not answer.
    pub fn hidden(&self, topic: &str) -> KafkaResult<BTreeMap<i32, i64>> {
        let stable: BTreeMap<_, _> = self.ends(&self.stable, topic)?.into_iter().collect();
        Ok(self
            .ends(&self.high, topic)?
            .into_iter()
            .map(|(partition, end)| (partition, end - stable[&partition]))
            .collect())
    }

    /// How many partitions still have an open transaction when none should, the group's offsets included.
    pub fn left_open(&self) -> usize {
        // The offsets of other tests' groups stand in the same partitions, and may wait for a transaction that is left open
        // there.
        let offsets = ["__consumer_offsets".to_owned()];
        let left = |topics: &[String]| self.blocked_of(topics).ok().map(|blocked| blocked.len());
        wait_for_zero(MARKERS, || left(&self.outputs)) + wait_for_zero(PATIENCE, || left(&offsets))
    }

    /// Records behind the group's committed offsets, once none should be.
    pub fn lag_left(&self) -> usize {
        wait_for_zero(PATIENCE, || self.lag().ok())
    }

    /// Records behind the group's committed offsets, those of open transactions not counted as committed.
    ///
    /// # Errors
    /// While a broker does not answer, or a transaction with offsets is open.
    pub fn lag(&self) -> KafkaResult<usize> {
        let mut lag = 0;
        for (partition, end) in self.ends(&self.high, &self.events)? {
            let mut list = TopicPartitionList::new();
            list.add_partition(&self.events, partition);
            let committed = self.stable.committed_offsets(list, ANSWER)?;
            let next = match committed.elements()[0].offset() {
                Offset::Offset(next) => next,
                _ => 0,
            };
            lag += usize::try_from(end - next).expect("nothing is committed that is not there");
        }
        Ok(lag)
    }

    fn blocked_of(&self, topics: &[String]) -> KafkaResult<BTreeSet<Blocked>> {
        let mut blocked = BTreeSet::new();
        for topic in topics {
            // In this order: what is stable below an end of a moment ago is held up by what stood there then.
            let high = self.ends(&self.high, topic)?;
            for (partition, end) in high {
                let (_, stable) = self.stable.fetch_watermarks(topic, partition, ANSWER)?;
                if stable < end {
                    blocked.insert(Blocked { topic: topic.clone(), partition, stable });
                }
            }
        }
        Ok(blocked)
    }

    fn ends(&self, client: &BaseConsumer, topic: &str) -> KafkaResult<Vec<(i32, i64)>> {
        let metadata = self.high.fetch_metadata(Some(topic), ANSWER)?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id());
        partitions.map(|id| Ok((id, client.fetch_watermarks(topic, id, ANSWER)?.1))).collect()
    }
}

/// What is still counted when it has become none, or when the time is up.
fn wait_for_zero(time: Duration, mut count: impl FnMut() -> Option<usize>) -> usize {
    let deadline = Instant::now() + time;
    let mut last = usize::MAX;
    while Instant::now() < deadline && last > 0 {
        thread::sleep(Duration::from_millis(50));
        last = count().unwrap_or(last);
    }
    last
}
