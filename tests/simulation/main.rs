//! Exactly once, shown: the worker against a simulated cluster on which everything goes wrong.

mod broker;
mod check;
mod group;
mod history;
mod invariant;
mod log;
mod member;
mod oracle;
mod plan;
mod ports;
mod random;
mod simulation;
mod traffic;
mod world;

#[test]
fn no_seed_violates_an_invariant() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let first: u64 = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        let outcome = simulation::run(seed);
        if let Err(violation) = outcome.verdict {
            panic!("seed {seed} step {}\n{}\n{violation}", outcome.steps, outcome.history);
        }
    }
}
