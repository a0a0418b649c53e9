//! How much a client's queue holds: its own thread counts, another one looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in a queue. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct QueuedBytes(Arc<AtomicU64>);

impl QueuedBytes {
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Into the queue.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Out of the queue, of what is in it.
    pub fn remove(&self, bytes: usize) {
        let _ =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held.saturating_sub(bytes as u64)));
    }
}
