//! The id of a topic. librdkafka keeps it to itself but for a line of its log, which it writes when the id becomes known or
//! another: before it fetches from the new topic, and into the queue that the records come by.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::ids::TopicId;

/// Has a client say it.
pub(super) fn listen(config: &mut ClientConfig) {
    let debug = config.get("debug").map(|contexts| format!("{contexts},metadata"));
    config.set("debug", debug.as_deref().unwrap_or("metadata")).set_log_level(RDKafkaLogLevel::Debug);
}

/// The id of `topic`, where a line of the log says it.
pub(super) fn told(line: &str, topic: &str) -> Option<TopicId> {
    let ids = line.strip_prefix("Topic ")?.strip_prefix(topic)?.strip_prefix(" changed id from ")?;
    let (_, id) = ids.split_once(" to ")?;
    // Kafka's tools print it so.
    Some(TopicId::from(id.replace('+', "-").replace('/', "_").as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_of_the_topic_itself() {
        let line = "Topic a.b changed id from AAAAAAAAAAAAAAAAAAAAAA to 8+9D/gvMRgqXBLJ6QMOCQg";
        assert_eq!(told(line, "a.b"), Some("8-9D_gvMRgqXBLJ6QMOCQg".into()));
        assert_eq!(told(line, "a"), None);
        assert_eq!(told("Topic a.b [0] Leader 1 Epoch 0", "a.b"), None);
    }
}
