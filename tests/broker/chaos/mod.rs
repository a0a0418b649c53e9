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

mod chance;
mod ends;
mod fleet;
mod flow;
mod history;
mod scene;
mod size;

use std::time::Duration;

use scene::Fault;
use size::Size;

use crate::cluster;

#[test]
fn kill_nine_of_a_process_again_and_again() {
    let kills = Size::chosen().kills;
    let row = Fault::new("kill -9", cluster::shared()).run(|scene| {
        for _ in 0..kills {
            scene.see(20);
            scene.let_pass(Duration::from_millis(1500));
            let instance = scene.any_instance();
            scene.fleet.kill(&instance);
            scene.fleet.start(&instance);
        }
        kills as usize
    });
    row.assert_exactly_once();
}
