//! The way out: the first signal drains, the second forces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tracing::{info, warn};

/// One wish to end can come as several signals: a terminal and a supervisor both send it to a whole process group, and who
/// passes signals on sends them on.
const ONE_WISH: Duration = Duration::from_secs(1);

/// Exit code of a shutdown that was forced, as the shell has it for a process ended by SIGTERM.
const FORCED: i32 = 143;

/// A flag that everything which runs looks at.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    requested: Arc<AtomicBool>,
}

impl Shutdown {
    /// Asks everything to end.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The flag itself, for loops that know nothing of signals.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    /// Waits for SIGTERM or SIGINT and requests the shutdown, telling `drain`; a second signal, a second
    /// later or more, ends the process at once.
    ///
    /// # Errors
    /// When signals can't be listened for.
    pub async fn on_signals(self, drain: impl FnOnce()) -> std::io::Result<()> {
        let mut signals = Both(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let name = signals.next().await;
        let first_at = Instant::now();
        info!(signal = name, "draining; a second signal ends at once");
        drain();
        self.request();
        second(first_at, &mut signals).await;
        warn!("second signal, ending at once: what is not committed is processed again");
        std::process::exit(FORCED);
    }
}

/// Where signals come from.
trait Signals {
    /// The name of the next one.
    fn next(&mut self) -> impl Future<Output = &'static str> + Send;
}

/// SIGTERM and SIGINT.
struct Both(Signal, Signal);

impl Signals for Both {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.0.recv() => "SIGTERM",
            _ = self.1.recv() => "SIGINT",
        }
    }
}

/// Waits for the first signal that is not the same wish as the one before.
async fn second(first_at: Instant, signals: &mut impl Signals) {
    loop {
        signals.next().await;
        if first_at.elapsed() >= ONE_WISH {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signals, each so many milliseconds after the one before.
    struct After(Vec<u64>);

    impl Signals for After {
        async fn next(&mut self) -> &'static str {
            tokio::time::sleep(Duration::from_millis(self.0.remove(0))).await;
            "SIGTERM"
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signals_within_a_second_of_the_first_are_the_same_wish() {
        for (pauses, forced_after) in [(vec![0, 10, 989, 1], 1_000), (vec![1_500], 1_500), (vec![999, 5_000], 5_999)] {
            let first_at = Instant::now();
            second(first_at, &mut After(pauses)).await;
            assert_eq!(first_at.elapsed().as_millis(), forced_after);
        }
    }
}
