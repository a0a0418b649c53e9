//! The ends of partitions, out of librdkafka's statistics.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ids::{Offset, Partition};

#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    topics: BTreeMap<String, Topic>,
}

#[derive(Deserialize)]
struct Topic {
    #[serde(default)]
    partitions: BTreeMap<String, Ends>,
}

#[derive(Deserialize)]
struct Ends {
    #[serde(default = "unknown")]
    hi_offset: i64,
    /// The last stable offset: where a read_committed consumer ends.
    #[serde(default = "unknown")]
    ls_offset: i64,
}

fn unknown() -> i64 {
    -1001
}

/// The ends that are known of a topic's partitions. Those of partitions that were given back may be among them, stale.
pub(super) fn ends(json: &[u8], topic: &str) -> BTreeMap<Partition, Offset> {
    let Ok(mut statistics) = serde_json::from_slice::<Statistics>(json) else { return BTreeMap::new() };
    let Some(topic) = statistics.topics.remove(topic) else { return BTreeMap::new() };
    topic
        .partitions
        .into_iter()
        .filter_map(|(partition, ends)| {
            let end = if ends.ls_offset >= 0 { ends.ls_offset } else { ends.hi_offset };
            // Partition -1 is librdkafka's own.
            let partition: i32 = partition.parse().ok().filter(|partition| *partition >= 0)?;
            (end >= 0).then_some((Partition(partition), Offset(end)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stable_offset_goes_before_the_high_watermark_and_unknown_is_left_out() {
        let json = br#"{"topics":{"events":{"partitions":{
            "0":{"hi_offset":9,"ls_offset":7},"1":{"hi_offset":5,"ls_offset":-1001},
            "2":{"hi_offset":-1001,"ls_offset":-1001},"-1":{"hi_offset":3,"ls_offset":3}}},
            "other":{"partitions":{"0":{"hi_offset":1}}}}}"#;
        let expected = BTreeMap::from([(Partition(0), Offset(7)), (Partition(1), Offset(5))]);
        assert_eq!(ends(json, "events"), expected);
        assert_eq!(ends(b"{", "events"), BTreeMap::new());
    }
}
