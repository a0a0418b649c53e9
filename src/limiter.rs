//! What a peer can cause again and again is logged once in five seconds, and tells how often it was withheld.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::SystemClock;
use crate::time::Clock;

/// How long a message that was just logged stays silent.
const SILENCE: Duration = Duration::from_secs(5);
/// Distinct messages remembered; past it the oldest knowledge is given up at once.
const REMEMBERED: usize = 256;

/// Shared by all of the process: ten clients that lose one broker say so once.
static LIMITER: LazyLock<Limiter> = LazyLock::new(Limiter::default);

/// Whether to say this now: how often it was withheld since it was last said; `None` while it is to be withheld again.
#[must_use]
pub fn admit(message: &str) -> Option<u64> {
    LIMITER.admit(message)
}

/// What makes a message another one: neither numbers, nor how long a connection took to fail, nor which of the several
/// connections to a broker it was.
fn essence(message: &str) -> &str {
    let message = message.find("Connect to ").map_or(message, |start| &message[start..]);
    message.split_once(" (after ").map_or(message, |(essence, _)| essence)
}

/// Which messages were logged of late.
#[derive(Debug, Default)]
struct Limiter {
    recent: Mutex<HashMap<String, Recent>>,
    clock: SystemClock,
}

#[derive(Debug)]
struct Recent {
    logged_at: Duration,
    /// Equal messages since.
    withheld: u64,
}

impl Limiter {
    /// How often the message was withheld since it was last logged; `None` while it is to be withheld again.
    fn admit(&self, message: &str) -> Option<u64> {
        self.admit_at(message, self.clock.monotonic())
    }

    fn admit_at(&self, message: &str, now: Duration) -> Option<u64> {
        let key: String = essence(message).chars().filter(|c| !c.is_ascii_digit()).collect();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent.get_mut(&key) {
            if now.saturating_sub(known.logged_at) < SILENCE {
                known.withheld += 1;
                return None;
            }
            known.logged_at = now;
            return Some(std::mem::take(&mut known.withheld));
        }
        if recent.len() >= REMEMBERED {
            recent.clear();
        }
        recent.insert(key, Recent { logged_at: now, withheld: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_logged_once_in_five_seconds_and_tells_how_often_it_came() {
        let limiter = Limiter::default();
        let at = |ms, text| limiter.admit_at(text, Duration::from_millis(ms));
        let refused = "a:9092/1: Connect to ipv4#127.0.0.1:9092 failed: refused (after 1ms in state CONNECT)";
        let suppressed =
            "GroupCoordinator: a:9092: Connect to ipv4#127.0.0.1:9092 failed: refused (after 0ms, 3 identical)";
        assert_eq!(at(0, refused), Some(0));
        assert_eq!(at(900, suppressed), None);
        assert_eq!(at(950, "another"), Some(0));
        assert_eq!(at(4999, refused), None);
        assert_eq!(at(5000, suppressed), Some(2));
    }

    #[test]
    fn the_memory_is_bounded() {
        let limiter = Limiter::default();
        for n in 0..10 * REMEMBERED {
            limiter.admit_at(&"x".repeat(n), Duration::ZERO);
        }
        assert!(limiter.recent.lock().unwrap().len() <= REMEMBERED);
    }
}
