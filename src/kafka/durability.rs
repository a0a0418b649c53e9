//! What the promise rests on and the service can do without: said at start where it is not so, with the remedy.

use std::collections::BTreeMap;

/// Copies of a record that outlast the loss of any one broker, and of one more while that is mended.
const REPLICAS: usize = 3;
/// Of those, how many must have a record before it counts as written.
const IN_SYNC: u64 = 2;
/// Kafka's own default of `delete.retention.ms`, a day.
const TOMBSTONES_KEPT_MS: u64 = 86_400_000;
/// A changelog that is left uncompacted for longer is read whole by every restore.
const LONGEST_LAG_MS: u64 = 3_600_000;

/// What is wanting in the replicas of topics, by name.
pub(super) fn of_replicas(brokers: usize, replicas: &BTreeMap<&str, usize>) -> Vec<String> {
    if brokers == 1 {
        return vec!["the cluster has one broker: what is lost with its disk is lost; three keep the promise".into()];
    }
    let few = replicas.iter().filter(|(_, replicas)| **replicas < REPLICAS);
    few.map(|(topic, replicas)| {
        format!(
            "topic {topic} has {replicas} replicas: give it {REPLICAS}, or the loss of a broker can lose its records"
        )
    })
    .collect()
}

/// What is wanting in the configuration of the changelog.
pub(super) fn of_changelog(topic: &str, brokers: usize, config: &BTreeMap<String, String>) -> Vec<String> {
    let value = |name: &str| config.get(name).and_then(|value| value.parse::<u64>().ok());
    let mut wanting = Vec::new();
    if let Some(in_sync) = value("min.insync.replicas").filter(|in_sync| brokers > 1 && *in_sync < IN_SYNC) {
        wanting.push(format!(
            "topic {topic} has min.insync.replicas={in_sync}: set {IN_SYNC}, or a commit can be lost with one broker; so on \
             the other topics"
        ));
    }
    if let Some(kept) = value("delete.retention.ms").filter(|kept| *kept < TOMBSTONES_KEPT_MS) {
        wanting.push(format!(
            "topic {topic} has delete.retention.ms={kept}: a broker that is away for longer and then leads it lacks \
             tombstones, and no restore goes on with that; set {TOMBSTONES_KEPT_MS} or more"
        ));
    }
    if let Some(lag) = value("min.compaction.lag.ms").filter(|lag| *lag > LONGEST_LAG_MS) {
        wanting.push(format!(
            "topic {topic} has min.compaction.lag.ms={lag}: a restore reads all that was written in that time; set 0"
        ));
    }
    wanting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanting(brokers: usize, config: &[(&str, &str)]) -> Vec<String> {
        let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        of_changelog("c", brokers, &config)
    }

    #[test]
    fn one_broker_is_one_warning_and_says_nothing_of_replicas() {
        assert_eq!(of_replicas(1, &BTreeMap::from([("a", 1), ("b", 1)])).len(), 1);
        assert_eq!(wanting(1, &[("min.insync.replicas", "1")]), [""; 0]);
    }

    #[test]
    fn topics_with_too_few_replicas_are_named() {
        let wanting = of_replicas(3, &BTreeMap::from([("a", 1), ("b", 3), ("c", 2)]));
        assert!(matches!(&wanting[..], [a, c] if a.starts_with("topic a has 1") && c.starts_with("topic c has 2")));
    }

    #[test]
    fn the_defaults_of_kafka_and_what_is_better_are_fine_and_what_is_worse_is_named_with_its_value() {
        let better =
            [("min.insync.replicas", "2"), ("delete.retention.ms", "86400000"), ("min.compaction.lag.ms", "0")];
        assert_eq!(wanting(3, &better), [""; 0]);
        assert_eq!(wanting(3, &[]), [""; 0], "not told");
        for worse in
            [("min.insync.replicas", "1"), ("delete.retention.ms", "60000"), ("min.compaction.lag.ms", "9999999")]
        {
            let (name, value) = worse;
            assert!(matches!(&wanting(3, &[worse])[..], [one] if one.contains(&format!("{name}={value}"))), "{name}");
        }
    }
}
