//! Many seeds over the machine's cores, and what they came to together.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::plan::{self, Happened};
use crate::simulation::{self, Outcome};

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name} {text:?}: {e}")))
}

/// What seeds came to.
#[derive(Debug, Default)]
pub struct Summary {
    seeds: u64,
    steps: u64,
    transactions: u64,
    sessions: u64,
    bundles: u64,
    certain: u64,
    happened: Happened,
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        let Ok(verdict) = outcome.verdict else { return };
        self.seeds += 1;
        self.steps += outcome.steps;
        self.transactions += outcome.transactions;
        self.sessions += verdict.sessions;
        self.bundles += verdict.bundles;
        self.certain += verdict.certain;
        self.happened.iter_mut().zip(outcome.happened).for_each(|(sum, n)| *sum += n);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, steps, transactions, sessions, bundles, certain, happened } = self;
        writeln!(f, "{seeds} seeds, {steps} steps, {transactions} transactions committed")?;
        writeln!(f, "{sessions} session ids, {bundles} bundles, each once; {certain} ids with every end certain")?;
        for (name, times) in plan::names().zip(happened) {
            writeln!(f, "  {times:10} {name}")?;
        }
        write!(f, "violations: 0")
    }
}

/// Runs the seeds below `seeds`.
///
/// # Panics
/// At the first violation, with its story.
pub fn run_all(seeds: u64) -> Summary {
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let outcome = simulation::run(seed);
                    if outcome.verdict.is_err() {
                        // Nobody begins another one.
                        next.store(seeds, Ordering::Relaxed);
                        panic!("{}", story(seed, &outcome));
                    }
                    summary.lock().expect("no thread panics while it adds").add(&outcome);
                }
            });
        }
    });
    summary.into_inner().expect("no thread panics while it adds")
}

/// Runs one seed and tells what happened.
///
/// # Panics
/// When it violates an invariant.
pub fn replay(seed: u64) {
    let outcome = simulation::run(seed);
    let story = story(seed, &outcome);
    assert!(outcome.verdict.is_ok(), "{story}");
    println!("{story}");
}

/// What there is to say of a seed.
pub fn story(seed: u64, outcome: &Outcome) -> String {
    let verdict = match &outcome.verdict {
        Ok(verdict) => format!("no violation: {verdict:?}"),
        Err(violation) => violation.to_string(),
    };
    format!(
        "seed {seed}, step {}\nthe last of it:\n{}{verdict}\n\
         again: SEED={seed} cargo test --release --test simulation -- --nocapture no_seed",
        outcome.steps, outcome.history
    )
}
