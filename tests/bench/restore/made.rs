//! Makes the state that is restored: traffic through the tasks of all partitions until enough sessions are open.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duplex_collector::collector::Settings;
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::synth::{Event, Profile, Traffic};
use duplex_collector::task::{ChangelogEntry, Header, PartitionTask, Record};
use duplex_collector::time::Timestamp;

pub const PARTITIONS: i32 = 8;
/// The traffic's time between two commits: the service's default.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
/// In which the sessions begin, so that they are of every age up to it.
const RAMP: Duration = Duration::from_secs(12);

/// The traffic of at least `sessions` open at once, which began at `start`.
pub fn traffic(sessions: usize, start: Timestamp) -> impl Iterator<Item = Event> {
    // Some end while others begin.
    let concurrency = sessions + sessions / 5;
    let ramp = RAMP.mul_f64(1.2);
    let payload_bytes = Some(64);
    // Few and long packets: what a response keeps of its audio is as large for one as for a thousand.
    let packet_ms = 5_000..=10_000;
    Traffic::new(Profile {
        sessions: u64::MAX,
        concurrency,
        start,
        ramp,
        packet_ms,
        payload_bytes,
        ..Profile::default()
    })
}

pub fn source(partition: i32) -> TopicPartition {
    TopicPartition { topic: "duplex.events".into(), partition: Partition(partition) }
}

/// What one partition's changelog holds.
#[derive(Default)]
pub struct Log {
    /// Every record that was written.
    pub written: Vec<ChangelogEntry>,
    /// What compaction leaves.
    pub compacted: BTreeMap<Vec<u8>, Vec<u8>>,
    pub next_offset: i64,
}

pub struct Made {
    pub events: usize,
    pub responses: usize,
    pub logs: Vec<Log>,
}

/// Plays traffic until `sessions` are open, with commits as the service makes them.
pub fn make(sessions: usize, start: Timestamp) -> Made {
    let settings = Arc::new(Settings::default());
    let new = |partition| PartitionTask::new(source(partition), Offset(0), Arc::clone(&settings));
    let mut tasks: Vec<PartitionTask> = (0..PARTITIONS).map(new).collect();
    let mut logs: Vec<Log> = (0..PARTITIONS).map(|_| Log::default()).collect();
    let mut events = 0;
    let mut commit_at = start + COMMIT_INTERVAL;
    for event in traffic(sessions, start) {
        let at = usize::try_from(hash(event.session.as_str()) % 8).expect("one of eight");
        let (task, log) = (&mut tasks[at], &mut logs[at]);
        process(task, &event, log.next_offset);
        log.next_offset += 1;
        events += 1;
        if event.at >= commit_at {
            commit_at = event.at + COMMIT_INTERVAL;
            tasks.iter_mut().zip(&mut logs).for_each(|(task, log)| log.commit(task));
            if tasks.iter().map(PartitionTask::open_sessions).sum::<usize>() >= sessions {
                break;
            }
        }
    }
    let responses = logs.iter().flat_map(|log| log.compacted.keys()).filter(|key| key[0] == b'R').count();
    Made { events, responses, logs }
}

fn process(task: &mut PartitionTask, event: &Event, offset: i64) {
    let headers = event.headers.iter();
    let record = Record {
        partition: task.partition(),
        offset: Offset(offset),
        timestamp: Some(event.at),
        key: Some(event.session.as_str().as_bytes()),
        value: Some(&event.value),
        headers: headers.map(|(name, value)| Header { name, value: Some(value.as_bytes()) }).collect(),
    };
    task.process(&record, event.at);
}

impl Log {
    fn commit(&mut self, task: &mut PartitionTask) {
        for entry in task.prepare_commit().map(|batch| batch.changelog).unwrap_or_default() {
            match &entry.value {
                Some(value) => drop(self.compacted.insert(entry.key.clone(), value.clone())),
                None => drop(self.compacted.remove(&entry.key)),
            }
            self.written.push(entry);
        }
    }
}

/// Writes a file of records as [`read`] reads them, and returns their number and bytes.
pub fn save<'a>(path: &Path, records: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>) -> (u64, u64) {
    let mut file = BufWriter::new(File::create(path).expect("a file can be made"));
    let (mut count, mut bytes) = (0, 0);
    for (key, value) in records {
        let length = |length: usize| u32::try_from(length).expect("a record is small").to_le_bytes();
        file.write_all(&length(key.len())).expect("the disk has room");
        file.write_all(key).expect("the disk has room");
        file.write_all(&value.map_or(u32::MAX.to_le_bytes(), |value| length(value.len()))).expect("the disk has room");
        file.write_all(value.unwrap_or_default()).expect("the disk has room");
        count += 1;
        bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
    }
    file.flush().expect("the disk has room");
    (count, bytes)
}

/// Hands every record of a saved log to `visit`.
pub fn read(path: &Path, mut visit: impl FnMut(&[u8], Option<&[u8]>)) {
    let mut file = BufReader::new(File::open(path).expect("a saved log"));
    let (mut length, mut key, mut value) = ([0; 4], Vec::new(), Vec::new());
    while file.read_exact(&mut length).is_ok() {
        key.resize(u32::from_le_bytes(length) as usize, 0);
        file.read_exact(&mut key).expect("a key");
        file.read_exact(&mut length).expect("a length");
        let is_tombstone = u32::from_le_bytes(length) == u32::MAX;
        value.resize(if is_tombstone { 0 } else { u32::from_le_bytes(length) as usize }, 0);
        file.read_exact(&mut value).expect("a value");
        visit(&key, (!is_tombstone).then_some(value.as_slice()));
    }
}

fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
