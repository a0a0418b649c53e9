//! Faults on real Kafka while thousands of sessions are open, and a checker that counts what became of them.
//!
//! Each fault has a deployment of its own: eight partitions, three processes, over 2,000 sessions open while it happens.
//! Afterwards every session sent has one bundle with the bytes of an offline replay, no transaction is open and the group
//! has no lag. Each prints a row of counts, also where it succeeds.
//!
//! ```sh
//! cargo test --release --locked --test broker -- chaos::              # some of each fault, as tests/run.sh does
//! CHAOS=long cargo test --release --locked --test broker -- chaos::   # many of each
//! CHAOS_SEED=7 ...                                                    # other faults at other times
//! ```

mod brokers;
mod chance;
mod ends;
mod fleet;
mod flow;
mod history;
mod java_client;
mod mixed;
mod of_brokers;
mod of_outages;
mod of_processes;
mod predecessor;
mod proxy;
mod scene;
mod size;
mod table;
