//! Offsets as they are committed: with a mark that tells them from those a tool set by hand.

use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset as Position, TopicPartitionList};

use crate::ids::{Offset, Partition};
use crate::panics;

/// The metadata of an offset that was committed with the state in the changelog.
pub(super) const HAS_STATE: &str = "duplex-collector";

/// Whether an offset was committed with the state in the changelog. rdkafka panics at metadata that is not UTF-8, which any
/// tool can commit.
pub(super) fn has_state(element: &TopicPartitionListElem<'_>) -> bool {
    panics::caught(|| element.metadata() == HAS_STATE).unwrap_or(false)
}

/// The list for a commit.
pub(super) fn to_commit(topic: &str, offsets: &[(Partition, Offset)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for (partition, offset) in offsets {
        let mut element = list.add_partition(topic, partition.0);
        element.set_offset(Position::Offset(offset.0)).expect("an offset can be set");
        element.set_metadata(HAS_STATE);
    }
    list
}
