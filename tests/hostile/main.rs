//! Sessions that mean harm, beside sessions that do not: memory stays under the configured ceiling, what was cut off is
//! marked and counted, and the bundles of the others are those of a partition without any harm.
//!
//! Each case runs in a process of its own, whose peak memory is then its own too:
//! `cargo test --release --test hostile -- --nocapture` prints the table.

mod cases;
mod partition;
mod scrapes;
mod size;

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use cases::{CASES, Case};
use partition::{Outcome, STATE_BYTES};
use size::{SHAPES, Shape};

/// Which case, or which shape of a state, the process is for that this one starts.
const CASE: &str = "DUPLEX_TEST_HOSTILE_CASE";
const SHAPE: &str = "DUPLEX_TEST_HOSTILE_SHAPE";
const SCRAPE: &str = "DUPLEX_TEST_HOSTILE_SCRAPE";

/// What is not state: the program, the traffic of the others and their bundles, a batch that waits for its commit, and
/// the event in hand.
const BESIDE_STATE: u64 = 128 << 20;

/// What eight scrapes at once take, their figures included.
const SCRAPES: f64 = 64.0 * MIB;

const MIB: f64 = (1 << 20) as f64;

#[test]
fn harm_is_bounded_marked_and_felt_by_nobody_else() {
    let waiting = Mutex::new(CASES.iter());
    let rows = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = { waiting.lock().expect("no panic").next() } {
                    let outcome = in_its_own_process(case);
                    rows.lock().expect("no panic").push((case, outcome));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no panic");
    rows.sort_by_key(|(case, _)| CASES.iter().position(|other| other.name == case.name));
    println!("{:<58} {}", "state_bytes: 64 MiB", Outcome::HEADER);
    for (case, outcome) in &rows {
        println!("{:<58} {outcome}", case.what);
    }
    assert_eq!(rows.len(), CASES.len());
    for (case, outcome) in rows {
        let Case { what, .. } = case;
        assert!(outcome.others > 20 && outcome.others_equal == outcome.others, "{what}: {outcome}");
        assert!(outcome.state_peak <= STATE_BYTES as u64, "{what}: {outcome}");
        assert!(outcome.memory_peak <= STATE_BYTES as u64 + BESIDE_STATE, "{what}: {outcome}");
        assert!((case.expects)(&outcome), "{what} is not told: {outcome}");
    }
}

fn in_its_own_process(case: &Case) -> Outcome {
    outcome_of("one_case_beside_others", CASE, case.name).parse().expect("an outcome")
}

/// Runs a test of this program in a process of its own; what it says behind "outcome".
fn outcome_of(test: &str, variable: &str, name: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(variable, name)
        .stderr(Stdio::inherit())
        .output()
        .expect("this program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}:\n{text}");
    text.lines().find_map(|line| line.strip_prefix("outcome ")).expect("an outcome").to_owned()
}

/// Of each shape in a process of its own, for what one frees the next would take.
#[test]
fn a_state_takes_no_more_than_it_counts_as() {
    let Ok(name) = std::env::var(SHAPE) else {
        for Shape { name, .. } in &SHAPES {
            let outcome = outcome_of("a_state_takes_no_more_than_it_counts_as", SHAPE, name);
            let numbers: Vec<f64> = outcome.split(' ').map(|number| number.parse().expect("a number")).collect();
            let [counted, taken] = numbers[..] else { panic!("two numbers: {outcome}") };
            println!("{name:<58} counted {:>4.0} MiB, took {:>4.0} MiB", counted / MIB, taken / MIB);
            assert!(taken <= counted, "{name}: {taken} of {counted}");
        }
        return;
    };
    let shape = SHAPES.iter().find(|shape| shape.name == name).expect("a shape of that name");
    let (counted, taken) = size::counted_and_taken(shape);
    println!("outcome {counted} {taken}");
}

/// Each in a process of its own, whose memory nothing else has made large before.
#[test]
fn eight_scrapes_at_once_of_names_made_to_be_large_take_bounded_memory() {
    let Ok(what) = std::env::var(SCRAPE) else {
        for what in ["/metrics identity", "/metrics gzip", "/report identity", "/status identity"] {
            let outcome =
                outcome_of("eight_scrapes_at_once_of_names_made_to_be_large_take_bounded_memory", SCRAPE, what);
            let numbers: Vec<f64> = outcome.split(' ').map(|number| number.parse().expect("a number")).collect();
            let [lines, bytes, grown] = numbers[..] else { panic!("three numbers: {outcome}") };
            println!(
                "{what:<20} {lines:>7} lines, {:>6.2} MiB; eight at once took {:>6.1} MiB",
                bytes / MIB,
                grown / MIB
            );
            assert!(grown <= SCRAPES, "{what}: {outcome}");
            // At the budget, and what the process has of its own.
            assert!(what != "/metrics identity" || (15_000.0..20_500.0).contains(&lines), "{what}: {outcome}");
        }
        return;
    };
    let (path, encoding) = what.split_once(' ').expect("a path and an encoding");
    let scrapes::Scraped { lines, bytes, grown } = scrapes::scrape(path, encoding);
    println!("outcome {lines} {bytes} {grown}");
}

/// By itself: a flood of ids that is small enough to be had at every run. Else the case that the test above asks for.
#[test]
fn one_case_beside_others() {
    let name = std::env::var(CASE).unwrap_or_else(|_| "small flood".into());
    let case = CASES.iter().chain([&cases::SMALL]).find(|case| case.name == name).expect("a case of that name");
    let outcome = partition::run(case);
    if name != cases::SMALL.name {
        return println!("outcome {}", outcome.line());
    }
    assert_eq!(outcome.others_equal, outcome.others, "{outcome}");
    assert!((case.expects)(&outcome), "{outcome}");
}
