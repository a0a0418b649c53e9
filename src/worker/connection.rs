//! Whether Kafka answers a worker: what its client believes, and what became of its own calls. Pure, time is an argument.
//!
//! ```text
//!            init_transactions succeeds
//! Unregistered -----------------------> Registered
//!      ^                                    |
//!      `------------------------------------'
//!        how a transaction ended is not known, or the client was cut off for long
//! ```
//! Unregistered, also at the start, a worker stays in its group and reads nothing that is committed: it may be of a
//! transaction that is not decided yet.

use std::collections::BTreeMap;
use std::time::Duration;

/// A failure counts until the same call succeeds, or for this long: longer than a commit takes to fail.
const FAILURE_COUNTS: Duration = Duration::from_secs(20);

/// After this long without a connection the producer may wait for one that is gone, so it is registered anew before the next
/// transaction.
const CUT_OFF: Duration = Duration::from_secs(10);

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Call {
    Register,
    Committed,
    Restore,
    Commit,
}

/// What is known of the way to Kafka.
#[derive(Debug, Default)]
pub(super) struct Connection {
    is_registered: bool,
    /// When each kind of call last failed, and why.
    failures: BTreeMap<Call, (Duration, String)>,
    /// Since when the client is connected.
    connected_since: Option<Duration>,
    /// Since when it is not.
    cut_off_since: Option<Duration>,
}

impl Connection {
    pub(super) fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// The producer is registered: how its last transaction ended is decided.
    pub(super) fn registered(&mut self) {
        self.is_registered = true;
        self.succeeded(Call::Register);
    }

    /// How the producer's last transaction ended is not known.
    pub(super) fn unregistered(&mut self) {
        self.is_registered = false;
    }

    pub(super) fn failed(&mut self, call: Call, now: Duration, why: &str) {
        self.failures.insert(call, (now, why.to_owned()));
    }

    pub(super) fn succeeded(&mut self, call: Call) {
        self.failures.remove(&call);
    }

    /// Takes what the client believes at `now`.
    pub(super) fn look(&mut self, now: Duration, is_connected: bool) {
        self.connected_since = is_connected.then(|| self.connected_since.unwrap_or(now));
        if is_connected {
            let since = self.cut_off_since.take();
            self.is_registered &= since.is_none_or(|since| now.saturating_sub(since) < CUT_OFF);
        } else {
            self.cut_off_since.get_or_insert(now);
        }
        self.failures.retain(|_, (at, _)| now.saturating_sub(*at) < FAILURE_COUNTS);
    }

    /// For how long the client has been connected; `None` while it is not.
    pub(super) fn connected_for(&self, now: Duration) -> Option<Duration> {
        self.connected_since.map(|since| now.saturating_sub(since))
    }

    /// Whether a commit may come about, as far as is known.
    pub(super) fn may_commit(&self) -> bool {
        self.is_registered && self.connected_since.is_some() && !self.failures.contains_key(&Call::Commit)
    }

    /// Why calls come to nothing; `None` when they don't.
    pub(super) fn away(&self) -> Option<&str> {
        let why = self.failures.values().next().map(|(_, why)| why.as_str());
        why.or_else(|| self.connected_since.is_none().then_some("no connection to a broker that is needed")).or_else(
            || (!self.is_registered).then_some("the transaction coordinator has not registered the producer yet"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn kafka_answers_once_the_client_is_connected_and_the_producer_registered() {
        let mut connection = Connection::default();
        assert_eq!(connection.away(), Some("no connection to a broker that is needed"));
        connection.look(s(1), true);
        assert_eq!(connection.away(), Some("the transaction coordinator has not registered the producer yet"));
        connection.registered();
        assert_eq!(connection.away(), None);
        assert_eq!(connection.connected_for(s(3)), Some(s(2)));
        connection.unregistered();
        assert!(connection.away().is_some());
        connection.registered();
        connection.look(s(4), false);
        assert!(connection.away().is_some() && connection.connected_for(s(5)).is_none());
    }

    #[test]
    fn a_call_that_failed_speaks_against_it_until_the_same_call_succeeds() {
        let mut connection = Connection::default();
        connection.registered();
        connection.failed(Call::Commit, s(1), "not delivered");
        connection.succeeded(Call::Committed);
        connection.look(s(15), true);
        assert_eq!(connection.away(), Some("not delivered"));
        connection.succeeded(Call::Commit);
        assert_eq!(connection.away(), None);
    }

    #[test]
    fn a_client_that_was_cut_off_for_long_is_not_trusted_with_a_transaction() {
        let mut connection = Connection::default();
        connection.registered();
        for (second, is_connected, is_registered) in [
            (1, true, true),
            (60, true, true),
            (61, false, true),
            (70, true, true),
            (71, false, true),
            (81, true, false),
        ] {
            connection.look(s(second), is_connected);
            assert_eq!(connection.is_registered(), is_registered, "at {second} s");
        }
    }

    #[test]
    fn a_call_that_is_not_made_again_does_not_speak_against_it_for_ever() {
        let mut connection = Connection::default();
        connection.registered();
        connection.failed(Call::Commit, s(1), "not delivered");
        connection.look(s(21), true);
        assert_eq!(connection.away(), None);
    }
}
