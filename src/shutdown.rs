//! The way out: the first signal drains, the second forces.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;
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
        info!(signal = name, "draining; a second signal ends at once");
        drain();
        self.request();
        second(&mut signals).await;
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

/// Waits for the first signal that is not the same wish as the one that just came.
async fn second(signals: &mut impl Signals) {
    let mut is_over = pin!(sleep(ONE_WISH));
    loop {
        tokio::select! {
            biased;
            () = &mut is_over => break,
            _ = signals.next() => {}
        }
    }
    signals.next().await;
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use tokio::time::{Sleep, timeout};

    use super::*;

    /// Signals, each at its time.
    struct At(Vec<Pin<Box<Sleep>>>);

    impl Signals for At {
        async fn next(&mut self) -> &'static str {
            self.0[0].as_mut().await;
            drop(self.0.remove(0));
            "SIGTERM"
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signals_within_a_second_of_the_first_are_the_same_wish() {
        for (signals_ms, forced_ms) in [(&[0, 10, 999, 1_001][..], 1_001), (&[1_500], 1_500), (&[999, 5_000], 5_000)] {
            let ms = Duration::from_millis;
            let mut signals = At(signals_ms.iter().map(|at| Box::pin(sleep(ms(*at)))).collect());
            let mut forced = pin!(second(&mut signals));
            assert!(timeout(ms(forced_ms - 1), &mut forced).await.is_err(), "{signals_ms:?}");
            assert!(timeout(ms(2), &mut forced).await.is_ok(), "{signals_ms:?}");
        }
    }
}
