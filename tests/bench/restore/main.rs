//! What a restore costs: time, bytes and memory for 100,000 open sessions in 8 partitions, by the service's own code.
//!
//! `cargo bench --bench restore [-- SESSIONS]` prints three tables: tasks restored from a changelog in memory's reach, a
//! worker restored from real Kafka (`KAFKA_BOOTSTRAP`, else a broker of tests/support/kafka), and what one more event
//! costs a session of 1, 1,000 and 10,000 responses. Every measurement is in a process of its own, for its memory.

mod long_session;
mod made;
mod service;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duplex_collector::clock::SystemClock;
use duplex_collector::collector::Settings;
use duplex_collector::ids::Offset;
use duplex_collector::task::{ChangelogState, PartitionTask};
use duplex_collector::time::{Clock, Timestamp};

use made::{Made, PARTITIONS};
use table::{Row, Table};

const SESSIONS: usize = 100_000;
/// Kafka stamps of the events lie so far back, as no record may be stamped in the future.
const BACK: Duration = Duration::from_secs(3600);

fn main() {
    // `cargo bench` adds flags of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["measure-tasks", folder, which, offsets] => print!("{}", measure_tasks(Path::new(folder), which, offsets)),
        ["measure-service", bootstrap, name] => print!("{}", service::measure(bootstrap, name)),
        [] => bench(SESSIONS),
        [sessions] if sessions.parse::<usize>().is_ok_and(|n| n > 0) => bench(sessions.parse().expect("a number")),
        _ => panic!("usage: cargo bench --bench restore [-- SESSIONS]"),
    }
}

fn bench(sessions: usize) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("restore");
    std::fs::create_dir_all(&folder).expect("a folder for the logs");
    let began = Instant::now();
    let start = SystemClock::new().now() - BACK;
    let made = made::make(sessions, start);
    let events = made.events;
    println!(
        "{sessions} sessions open in {PARTITIONS} partitions after {events} events, with {} responses; made in {:.0} s",
        made.responses,
        began.elapsed().as_secs_f64()
    );
    tasks(&folder, made, sessions);
    kafka(&folder, sessions, events, start);
    println!("{}", long_session::measure());
    std::fs::remove_dir_all(&folder).expect("the logs can be removed");
}

/// Restores tasks from what was written, and from what compaction leaves of it.
fn tasks(folder: &Path, made: Made, sessions: usize) {
    let offsets: Vec<String> = made.logs.iter().map(|log| log.next_offset.to_string()).collect();
    let mut table = Table::new("tasks, from a file");
    for (which, what) in [("compacted", "compacted"), ("written", "as written, a commit every 200 ms")] {
        let (mut records, mut bytes) = (0, 0);
        for (partition, log) in made.logs.iter().enumerate() {
            let path = log_path(folder, which, partition);
            let (count, size) = match which {
                "compacted" => made::save(&path, log.compacted.iter().map(|(k, v)| (&k[..], Some(&v[..])))),
                _ => made::save(&path, log.written.iter().map(|entry| (&entry.key[..], entry.value.as_deref()))),
            };
            records += count;
            bytes += size;
        }
        let words = ["measure-tasks", &folder.to_string_lossy(), which, &offsets.join(",")].map(str::to_owned);
        table.push(what, Row { records, bytes, ..apart(&words) }, sessions);
    }
    println!("{table}");
}

/// In a process of its own: restores every partition's task, one after the other, as one worker does.
fn measure_tasks(folder: &Path, which: &str, offsets: &str) -> Row {
    let settings = Arc::new(Settings::default());
    let mut tasks = Vec::new();
    let mut row = Row { resident_before: table::resident(), ..Row::default() };
    let began = Instant::now();
    for (partition, offset) in offsets.split(',').enumerate() {
        let mut state = ChangelogState::default();
        made::read(&log_path(folder, which, partition), |key, value| {
            state.apply(key, value).expect("our own changelog");
        });
        let source = made::source(partition as i32);
        let offset = Offset(offset.parse().expect("an offset"));
        tasks.push(PartitionTask::restore(source, offset, state, Arc::clone(&settings)).expect("our own changelog"));
    }
    row.took = began.elapsed();
    row.resident_after = table::resident();
    row.resident_peak = table::resident_peak();
    row.sessions = tasks.iter().map(PartitionTask::open_sessions).sum();
    row
}

fn kafka(folder: &Path, sessions: usize, events: usize, start: Timestamp) {
    let broker = match service::Broker::start(&folder.join("kafka")) {
        Ok(broker) => broker,
        Err(why) => return println!("no real Kafka, so no service: {why}\n"),
    };
    let name = format!("restore-bench-{}", start.0);
    let filled = service::fill(&broker.bootstrap, &name, made::traffic(sessions, start).take(events));
    println!(
        "{events} events written to Kafka in {:.0} s, read and committed by a worker in {:.0} s",
        filled.wrote.as_secs_f64(),
        filled.committed.as_secs_f64()
    );
    let row = apart(&["measure-service".to_owned(), broker.bootstrap.clone(), name]);
    let mut table = Table::new("a worker, from Kafka, assigned until all of it runs");
    table.push("as written", Row { bytes: filled.changelog_bytes, ..row }, sessions);
    println!("{table}");
}

/// Runs one measurement in a process of its own.
fn apart(words: &[String]) -> Row {
    let program = std::env::current_exe().expect("this program's path");
    let output = Command::new(program).args(words).stderr(std::process::Stdio::inherit()).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("a row").parse().expect("a row")
}

fn log_path(folder: &Path, which: &str, partition: usize) -> PathBuf {
    folder.join(format!("{which}-{partition}"))
}
