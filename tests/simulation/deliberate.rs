//! Shows that the simulation can fail: each fault of `fault.rs` is put in, and must be found.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use duplex_collector::fault::{self, Fault};

use crate::invariant::Violation;
use crate::simulation;

/// A fault that this many seeds don't find is not found.
const MOST_SEEDS: u64 = 10_000;

/// The first seed that finds the fault, and what it finds.
fn find(fault: Fault) -> Option<(u64, Violation)> {
    (0..MOST_SEEDS).find_map(|seed| {
        fault::put_in(Some(fault));
        let violation = match fault {
            Fault::TakeAnyTopic => simulation::replace(seed).err(),
            _ => simulation::run(seed).verdict.err(),
        };
        fault::put_in(None);
        violation.map(|violation| (seed, violation))
    })
}

#[test]
fn every_deliberate_fault_is_found() {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(fault) = Fault::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = find(*fault);
                    found.lock().expect("no thread panics while it adds").push((*fault, result));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics while it adds");
    found.sort_by_key(|(fault, _)| Fault::ALL.iter().position(|other| other == fault));
    println!("{:26} {:>6}  invariant", "fault", "seeds");
    for (fault, result) in &found {
        match result {
            Some((seed, violation)) => {
                let name = format!("{fault:?}");
                println!("{name:26} {:6}  {}", seed + 1, violation.invariant.name());
            }
            None => println!("{fault:?} is not found"),
        }
    }
    let missed: Vec<_> = found.iter().filter(|(_, result)| result.is_none()).map(|(fault, _)| fault).collect();
    assert!(missed.is_empty(), "{MOST_SEEDS} seeds do not find {missed:?}");
}
