//! What librdkafka's statistics tell: the ends of partitions, whether their leaders are connected, what is fetched.
//!
//! They keep partitions that were given back, with what was last known of them: only those being read count.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ids::{Offset, Partition};
use crate::worker::Ends;

/// What one set of statistics says of a topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// The ends that are known.
    pub ends: BTreeMap<Partition, Ends>,
    /// A broker answers, and so do the leader of every partition that is being read and the group's coordinator.
    pub is_connected: bool,
    /// Bytes that were fetched and not yet polled.
    pub fetched_bytes: u64,
}

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    cgrp: Membership,
    #[serde(default)]
    brokers: BTreeMap<String, Broker>,
    #[serde(default)]
    topics: BTreeMap<String, Topic>,
}

#[derive(Default, Deserialize)]
struct Membership {
    #[serde(default)]
    join_state: String,
}

#[derive(Deserialize)]
struct Broker {
    nodeid: i32,
    state: String,
    /// `logical` is the connection to a coordinator, beside that to the same broker.
    #[serde(default)]
    source: String,
    /// Requests without an answer (yet).
    #[serde(default)]
    waitresp_cnt: i64,
    /// Microseconds since something was received.
    #[serde(default)]
    rxidle: i64,
}

/// A broker that has been asked and has said nothing for this long does not answer: one that is read from answers twice a
/// second, and a connection to one that stands still stays.
const SILENT_US: i64 = 5_000_000;

impl Broker {
    fn is_up(&self) -> bool {
        // The latter while it logs in anew.
        matches!(self.state.as_str(), "UP" | "REAUTH")
    }

    fn is_silent(&self) -> bool {
        self.waitresp_cnt > 0 && self.rxidle >= SILENT_US
    }

    fn answers(&self) -> bool {
        self.nodeid >= 0 && self.is_up() && !self.is_silent()
    }

    fn is_coordinator(&self) -> bool {
        self.source == "logical"
    }
}

#[derive(Default, Deserialize)]
struct Topic {
    #[serde(default)]
    partitions: BTreeMap<String, TopicPartition>,
}

#[derive(Deserialize)]
struct TopicPartition {
    #[serde(default = "no_broker")]
    leader: i32,
    #[serde(default)]
    fetch_state: String,
    #[serde(default)]
    fetchq_size: u64,
    #[serde(default = "unknown")]
    hi_offset: i64,
    /// The last stable offset: where a read_committed consumer ends.
    #[serde(default = "unknown")]
    ls_offset: i64,
}

fn no_broker() -> i32 {
    -1
}

fn unknown() -> i64 {
    -1001
}

/// Reads a set of statistics; `None` when it is none.
pub(super) fn read(json: &[u8], topic: &str) -> Option<Seen> {
    let mut statistics: Statistics = serde_json::from_slice(json).ok()?;
    let mut partitions = statistics.topics.remove(topic).unwrap_or_default().partitions;
    partitions.retain(|_, partition| partition.fetch_state == "active");
    let (coordinators, brokers): (Vec<&Broker>, Vec<&Broker>) =
        statistics.brokers.values().partition(|broker| broker.is_coordinator());
    let leader = |partition: &TopicPartition| brokers.iter().find(|broker| broker.nodeid == partition.leader);
    let is_steady = statistics.cgrp.join_state == "steady";
    let is_connected = brokers.iter().any(|broker| broker.answers())
        // Which lets a member that joins wait for the others as long as a rebalance takes.
        && coordinators.iter().all(|coordinator| coordinator.is_up() && !(is_steady && coordinator.is_silent()))
        && partitions.values().all(|partition| leader(partition).is_some_and(|leader| leader.answers()));
    let fetched_bytes = partitions.values().map(|partition| partition.fetchq_size).sum();
    Some(Seen { ends: ends(partitions), is_connected, fetched_bytes })
}

fn ends(partitions: BTreeMap<String, TopicPartition>) -> BTreeMap<Partition, Ends> {
    partitions
        .into_iter()
        .filter_map(|(number, partition)| {
            // Partition -1 is librdkafka's own.
            let number: i32 = number.parse().ok().filter(|number| *number >= 0)?;
            let high = Offset(partition.hi_offset);
            let stable = if partition.ls_offset >= 0 { Offset(partition.ls_offset) } else { high };
            (high.0 >= 0).then_some((Partition(number), Ends { stable, high }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(stable: i64, high: i64) -> Ends {
        Ends { stable: Offset(stable), high: Offset(high) }
    }

    #[test]
    fn a_partition_ends_at_its_last_stable_offset_and_its_high_watermark_and_unknown_is_left_out() {
        let json = br#"{"topics":{"events":{"partitions":{
            "0":{"hi_offset":9,"ls_offset":7,"fetch_state":"active"},
            "1":{"hi_offset":5,"ls_offset":-1001,"fetch_state":"active"},
            "2":{"hi_offset":-1001,"ls_offset":-1001,"fetch_state":"active"},
            "-1":{"hi_offset":3,"ls_offset":3,"fetch_state":"active"}}},
            "other":{"partitions":{"0":{"hi_offset":1,"fetch_state":"active"}}}}}"#;
        let expected = BTreeMap::from([(Partition(0), ends(7, 9)), (Partition(1), ends(5, 5))]);
        assert_eq!(read(json, "events").map(|seen| seen.ends), Some(expected));
        assert_eq!(read(b"{", "events"), None);
    }

    #[test]
    fn a_partition_that_was_given_back_has_no_end_and_no_bytes() {
        let json = br#"{"topics":{"events":{"partitions":{
            "0":{"hi_offset":9,"ls_offset":7,"fetch_state":"active","fetchq_size":100},
            "1":{"hi_offset":5,"ls_offset":5,"fetch_state":"stopped","fetchq_size":1000},
            "2":{"hi_offset":6,"ls_offset":6,"fetch_state":"active","fetchq_size":10}}}}}"#;
        let seen = read(json, "events").unwrap();
        assert_eq!(seen.ends, BTreeMap::from([(Partition(0), ends(7, 9)), (Partition(2), ends(6, 6))]));
        assert_eq!(seen.fetched_bytes, 110);
    }

    #[test]
    fn connected_means_the_leaders_of_what_is_read_and_the_groups_coordinator() {
        let connected = |state_of_1: &str, fetch_state: &str| {
            let json = format!(
                r#"{{"brokers":{{"a":{{"nodeid":1,"state":"{state_of_1}"}},"b":{{"nodeid":2,"state":"UP"}},
                    "bootstrap":{{"nodeid":-1,"state":"UP"}}}},
                    "topics":{{"events":{{"partitions":{{"0":{{"leader":1,"fetch_state":"{fetch_state}"}}}}}}}}}}"#
            );
            read(json.as_bytes(), "events").map(|seen| seen.is_connected)
        };
        assert_eq!(connected("UP", "active"), Some(true));
        assert_eq!(connected("TRY_CONNECT", "active"), Some(false));
        assert_eq!(connected("TRY_CONNECT", "stopped"), Some(true));
        let answers = |broker: &str| {
            let json = format!(
                r#"{{"brokers":{{"a":{{"nodeid":1,"state":"UP"}},"b":{{{broker}}}}},
                "topics":{{"events":{{"partitions":{{"0":{{"leader":2,"fetch_state":"active"}}}}}}}}}}"#
            );
            read(json.as_bytes(), "events").map(|seen| seen.is_connected)
        };
        let of_2 = r#""nodeid":2,"state":"UP","source":"learned""#;
        assert_eq!(answers(&format!(r#"{of_2},"waitresp_cnt":1,"rxidle":4000000"#)), Some(true));
        assert_eq!(answers(&format!(r#"{of_2},"waitresp_cnt":1,"rxidle":6000000"#)), Some(false), "asked, and silent");
        assert_eq!(answers(&format!(r#"{of_2},"waitresp_cnt":0,"rxidle":6000000"#)), Some(true), "not asked");
        assert_eq!(
            answers(r#""nodeid":-1,"state":"UP","source":"logical""#),
            Some(false),
            "no leader, but a coordinator"
        );
        let coordinator = |join_state: &str, coordinator: &str| {
            let json = format!(
                r#"{{"cgrp":{{"join_state":"{join_state}"}},"brokers":{{"a":{{"nodeid":1,"state":"UP"}},
                    "GroupCoordinator":{{"nodeid":-1,"source":"logical",{coordinator}}}}}}}"#
            );
            read(json.as_bytes(), "events").map(|seen| seen.is_connected)
        };
        assert_eq!(coordinator("steady", r#""state":"UP""#), Some(true));
        assert_eq!(coordinator("steady", r#""state":"TRY_CONNECT""#), Some(false));
        let silent = r#""state":"UP","waitresp_cnt":1,"rxidle":6000000"#;
        assert_eq!(coordinator("steady", silent), Some(false));
        assert_eq!(coordinator("wait-join", silent), Some(true), "it waits for the other members");
        let only_bootstrap = br#"{"brokers":{"x":{"nodeid":-1,"state":"UP"}}}"#;
        assert_eq!(read(only_bootstrap, "events").map(|seen| seen.is_connected), Some(false));
    }
}
