//! The connections at once: their bound, and which one leaves for a new one.
//!
//! ```text
//! Requesting -> Checking -> Answering -> Taking -> closed      each has one request
//!  the peer's    a guess?     ours         the peer's
//! ```
//! While it is the peer's turn, or its password has not been found right, it may be closed on: the oldest of the address
//! that has the most. So a crowd that sends nothing, reads nothing or guesses keeps nobody out; one on an address of its own
//! does not even hurry the others, and elsewhere whoever sends and reads at once is done before it is the oldest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Phase {
    Requesting,
    /// A login is looked into that may be anybody's.
    Checking,
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

    pub fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }
}

/// The open connections. They end when this is dropped.
pub(super) struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    /// In order of arrival.
    open: Vec<Open>,
    /// Some connection's turn passed.
    passed: Arc<Notify>,
}

struct Open {
    origin: IpAddr,
    task: AbortHandle,
    turn: Turn,
}

impl Connections {
    /// No connection yet, and `limit` at once.
    pub fn new(limit: usize) -> Self {
        Self { limit, tasks: JoinSet::new(), open: Vec::new(), passed: Arc::default() }
    }

    /// Serves one more connection, once there is room: waits while all others are being answered.
    pub async fn open<F>(&mut self, peer: IpAddr, serve: impl FnOnce(Turn) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= self.limit {
            if let Some(open) = self.next_to_leave() {
                open.task.abort();
            }
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = self.passed.notified() => {}
            }
        }
        self.open.retain(|open| !open.task.is_finished());
        let turn = Turn { phase: Arc::new(AtomicU8::new(Phase::Requesting as u8)), passed: Arc::clone(&self.passed) };
        let task = self.tasks.spawn(serve(turn.clone()));
        self.open.push(Open { origin: origin(peer), task, turn });
    }

    /// The oldest that may be closed on, of the origin that has the most open.
    fn next_to_leave(&self) -> Option<&Open> {
        let mut of_origin = BTreeMap::new();
        for open in self.open.iter().filter(|open| !open.task.is_finished()) {
            *of_origin.entry(open.origin).or_insert(0_usize) += 1;
        }
        let may_leave = |open: &&Open| !open.turn.is(Phase::Answering) && !open.task.is_finished();
        let candidates = self.open.iter().enumerate().filter(|(_, open)| may_leave(open));
        let next = candidates.max_by_key(|(age, open)| (of_origin.get(&open.origin).copied(), Reverse(*age)));
        next.map(|(_, open)| open)
    }

    /// Closes on those who have not sent their request, and waits for the others.
    pub async fn finish(&mut self) {
        self.open.iter().filter(|open| open.turn.is(Phase::Requesting)).for_each(|open| open.task.abort());
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Whom a connection is counted for: an address, and in IPv6 a network of 64 bits, for one host has all of it.
fn origin(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_host_is_counted_by_its_network() {
        let of = |address: &str| origin(address.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
    }
}
