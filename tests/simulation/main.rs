//! Exactly once, shown: the worker against a simulated cluster on which everything goes wrong.
//!
//! The claim: for every session that ends, exactly one bundle is visible to a read_committed consumer, with the same bytes
//! as in a run without faults, whatever dies and whenever. The code under test is `worker::Worker` with its tasks, as the
//! service runs it; what is simulated stands behind its ports: a cluster with real transaction semantics ([`broker`],
//! [`group`], [`log`]), the client's side of it ([`ports`], [`member`]), time, and what goes wrong ([`plan`]), all drawn
//! from a seed. Invariants ([`invariant`]) are checked at every decided transaction ([`check`]) and at the end ([`oracle`]).
//!
//! ```text
//! cargo test --release --test simulation                                            10,000 seeds
//! SEEDS=1000000 cargo test --release --test simulation -- --nocapture no_seed       more, with the summary
//! SEED=1234 cargo test --release --test simulation -- --nocapture no_seed           one seed again, with its history
//! cargo test --release --features deliberate-faults --test simulation -- --nocapture
//!                                                        each fault of `fault.rs` put in, and how soon it is found
//! ```
//! Not simulated: the loss of a broker's own data, a `read_uncommitted` reader, and the real client library; that is for
//! `tests/broker` and a real cluster.

mod broker;
mod broker_tests;
mod check;
#[cfg(feature = "deliberate-faults")]
mod deliberate;
mod group;
mod history;
mod invariant;
mod log;
mod member;
mod oracle;
mod outages;
mod plan;
mod ports;
mod random;
mod run_figures;
mod seeds;
mod simulation;
mod traffic;
mod world;

#[test]
fn no_seed_violates_an_invariant() {
    match seeds::number("SEED") {
        Some(seed) => seeds::replay(seed),
        None => println!("{}", seeds::run_all(seeds::number("SEEDS").unwrap_or(10_000))),
    }
}

#[test]
fn records_that_are_deleted_before_they_are_read_are_noticed() {
    let lost = (0..300).filter(|seed| simulation::lose(*seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"))).count();
    assert!(lost >= 200, "only {lost} seeds had a record to lose");
}

#[test]
fn nothing_of_an_events_topic_goes_into_the_state_of_another_and_somebody_says_so() {
    let made =
        (0..300).filter(|seed| simulation::replace(*seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"))).count();
    assert!(made >= 200, "only {made} seeds had something committed");
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 0..20 {
        let run = || {
            let outcome = simulation::run(seed);
            (outcome.steps, outcome.transactions, outcome.happened, outcome.history)
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
