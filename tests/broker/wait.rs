//! Waiting for what a test expects: with a deadline, never for a fixed time.

use std::thread;
use std::time::{Duration, Instant};

/// How long the broker or the service may take for anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until there is something, and returns it.
///
/// # Panics
/// When there is nothing within `PATIENCE`.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// As [`until`], for a condition.
#[track_caller]
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}
