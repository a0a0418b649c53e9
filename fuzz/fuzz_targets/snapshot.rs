//! Any changelog: it is refused, or it is a state that the task goes on with.
//!
//! Entries are key length, key, value length (two bytes), value.

#![no_main]

use std::sync::Arc;

use duplex_collector::collector::Settings;
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::task::{ChangelogState, PartitionTask};
use libfuzzer_sys::fuzz_target;

fn entry(input: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key_len, rest) = input.split_first()?;
    let (key, rest) = rest.split_at_checked(usize::from(*key_len))?;
    let (value_len, rest) = rest.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*value_len)))?;
    Some((key, value, rest))
}

fuzz_target!(|input: &[u8]| {
    let (mut state, mut rest) = (ChangelogState::default(), input);
    while let Some((key, value, after)) = entry(rest) {
        rest = after;
        if state.apply(key, (!value.is_empty()).then_some(value)).is_err() {
            return;
        }
    }
    let source = TopicPartition { topic: "events".into(), partition: Partition(0) };
    if let Ok(mut task) = PartitionTask::restore(source, Offset(10), state, Arc::new(Settings::default())) {
        task.end_of_input();
        drop(task.prepare_commit());
    }
});
