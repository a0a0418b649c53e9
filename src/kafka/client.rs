//! What every client needs: deadlines, and an end that can't hang.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tracing::warn;

use crate::clock::SystemClock;
use crate::time::Clock;

/// For a client that is replaced to close: the worker's loop waits.
pub(super) const REPLACE_TIMEOUT: Duration = Duration::from_secs(1);

/// A point in time by which a call must be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    clock: SystemClock,
    at: Duration,
}

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        let clock = SystemClock::new();
        Self { clock, at: clock.monotonic().saturating_add(timeout) }
    }

    /// What is left; zero once it has passed.
    pub(super) fn remaining(&self) -> Duration {
        self.at.saturating_sub(self.clock.monotonic())
    }

    pub(super) fn passed(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// Drops a client on a thread of its own and waits up to `timeout`: librdkafka's destructors can wait for a broker that
/// never answers. Past the deadline the client is left to that thread. Returns whether it was dropped in time.
pub(super) fn drop_within<T: Send + 'static>(client: T, timeout: Duration, what: &str) -> bool {
    let (done, wait) = mpsc::channel::<()>();
    let spawned = thread::Builder::new().name("kafka-close".into()).spawn(move || {
        drop(client);
        drop(done);
    });
    if let Err(error) = spawned {
        // The closure, and the client with it, was dropped on this thread instead.
        warn!(client = what, %error, "client closed without a deadline: no thread");
        return true;
    }
    let in_time = matches!(wait.recv_timeout(timeout), Err(mpsc::RecvTimeoutError::Disconnected));
    if !in_time {
        warn!(client = what, timeout_ms = timeout.as_millis(), "client did not close in time and is left behind");
    }
    in_time
}

/// Makes a call on a thread of its own and waits up to `timeout`: what was returned, or `None` past the deadline, when the
/// call is left to that thread with all it holds.
///
/// # Errors
/// When there is no thread to be had.
pub(super) fn call_within<T: Send + 'static>(
    timeout: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, wait) = mpsc::sync_channel(1);
    thread::Builder::new().name("kafka-call".into()).spawn(move || {
        // Nobody may wait any more.
        drop(done.send(call()));
    })?;
    Ok(wait.recv_timeout(timeout).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_never_returns_is_left_behind_and_one_that_does_is_waited_for() {
        let (release, gate) = mpsc::channel::<()>();
        assert_eq!(call_within(Duration::from_millis(20), move || gate.recv()).unwrap(), None);
        drop(release);
        assert_eq!(call_within(Duration::from_secs(5), || 5).unwrap(), Some(5));
    }

    struct Slow(mpsc::Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn a_client_that_never_ends_is_left_behind() {
        let (release, gate) = mpsc::channel();
        assert!(!drop_within(Slow(gate), Duration::from_millis(20), "test"));
        drop(release);
    }

    #[test]
    fn a_client_that_ends_is_waited_for() {
        assert!(drop_within(5, Duration::from_secs(5), "test"));
    }

    #[test]
    fn a_deadline_in_the_far_future_does_not_overflow() {
        assert!(!Deadline::after(Duration::MAX).passed());
        assert!(Deadline::after(Duration::ZERO).passed());
    }
}
