//! The connections at once: their bound, and which one leaves for a new one.
//!
//! ```text
//! Requesting -> Answering -> Taking -> closed      each has one request
//!  the peer's   ours          the peer's
//! ```
//! While it is the peer's turn it may be closed on, the oldest first: neither a crowd that sends nothing nor one that reads
//! nothing keeps the next peer out, and whoever sends and reads at once is done before it is the oldest.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Phase {
    Requesting,
    Answering,
    Taking,
}

/// A connection's phase, shared with those who choose which one leaves.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    phase: Arc<AtomicU8>,
    passed: Arc<Notify>,
}

impl Turn {
    pub fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
        self.passed.notify_one();
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }
}

/// The open connections, in order of arrival. They end when this is dropped.
pub(super) struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    open: Vec<(AbortHandle, Turn)>,
    /// Some connection's turn passed.
    passed: Arc<Notify>,
}

impl Connections {
    /// No connection yet, and `limit` at once.
    pub fn new(limit: usize) -> Self {
        Self { limit, tasks: JoinSet::new(), open: Vec::new(), passed: Arc::default() }
    }

    /// Serves one more connection, once there is room: waits while all others are being answered.
    pub async fn open<F>(&mut self, serve: impl FnOnce(Turn) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= self.limit {
            let awaited = |(task, turn): &&(AbortHandle, Turn)| !turn.is(Phase::Answering) && !task.is_finished();
            if let Some((oldest, _)) = self.open.iter().find(awaited) {
                oldest.abort();
            }
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = self.passed.notified() => {}
            }
        }
        self.open.retain(|(task, _)| !task.is_finished());
        let turn = Turn { phase: Arc::new(AtomicU8::new(Phase::Requesting as u8)), passed: Arc::clone(&self.passed) };
        self.open.push((self.tasks.spawn(serve(turn.clone())), turn));
    }

    /// Closes on those who have not sent their request, and waits for the others.
    pub async fn finish(&mut self) {
        self.open.iter().filter(|(_, turn)| turn.is(Phase::Requesting)).for_each(|(task, _)| task.abort());
        while self.tasks.join_next().await.is_some() {}
    }
}
