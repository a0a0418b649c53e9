//! The way out: the first signal drains, the second forces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

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

    /// Waits for SIGTERM or SIGINT and requests the shutdown, telling `drain`; a second signal ends the process at once.
    ///
    /// # Errors
    /// When signals can't be listened for.
    pub async fn on_signals(self, drain: impl FnOnce()) -> std::io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "draining; a second signal ends at once");
        drain();
        self.request();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        warn!("second signal, ending at once: what is not committed is processed again");
        std::process::exit(FORCED);
    }
}
