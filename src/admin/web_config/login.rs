//! `basic_auth_users`: who may ask, by HTTP basic authentication against bcrypt hashes.
//!
//! A check costs a core tens of milliseconds on purpose, so there is one at a time and off the server's threads. A
//! password that was found right is remembered by its keyed digest: whoever has it waits for nobody who guesses.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderValue;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bcrypt::HashParts;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::error;

use super::report::{Report, Text};

/// A check of the next cost takes twice as long; past this one it takes longer than a scrape may.
const COSTS: RangeInclusive<u32> = 4..=16;

/// The users and what is known of their passwords.
pub(super) struct Users {
    /// By name.
    hashes: BTreeMap<String, String>,
    /// What an unknown user's password is checked against: no password has it, and it costs what the dearest one does.
    nobodys: String,
    key: hmac::Key,
    /// By user, the digest of the password that was found right: at most one each.
    verified: Mutex<BTreeMap<String, hmac::Tag>>,
    /// Admits one check at a time.
    checks: Arc<Semaphore>,
}

impl Users {
    /// The users of the file; `None` where there is none, or one's hash is wrong, which is reported.
    pub fn of(users: Vec<(String, Text)>, checks: &Arc<Semaphore>, report: &mut Report<'_>) -> Option<Self> {
        let mut dearest = 0;
        for (_, hash) in &users {
            match HashParts::from_str(&hash.value) {
                Ok(parts) if COSTS.contains(&parts.get_cost()) => dearest = dearest.max(parts.get_cost()),
                Ok(parts) => {
                    let (cost, least, most) = (parts.get_cost(), COSTS.start(), COSTS.end());
                    let remedy = format!("has a bcrypt cost of {cost}, which must be {least} to {most}; 10 is usual");
                    report.secret(hash, &remedy);
                }
                Err(_) => report.secret(hash, "must be a bcrypt hash, as `htpasswd -nBC 10 NAME` makes it"),
            }
        }
        if users.is_empty() || !report.is_empty() {
            return None;
        }
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).ok();
        let Some((key, nobodys)) = key.zip(nobodys(dearest, &random)) else {
            report.add("the system gives no random numbers, so no login can be checked".to_owned());
            return None;
        };
        Some(Self {
            hashes: users.into_iter().map(|(name, hash)| (name, hash.value)).collect(),
            nobodys,
            key,
            verified: Mutex::default(),
            checks: Arc::clone(checks),
        })
    }

    /// Whether both have the same users with the same hashes.
    pub fn same(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }

    /// Whether a request with this `Authorization` may be answered. Where it has to be checked, that goes on to its end
    /// also if nobody waits for it any more, so that whoever asks again need not wait.
    pub async fn admit(self: &Arc<Self>, authorization: Option<&HeaderValue>) -> bool {
        let Some((name, password)) = authorization.and_then(credentials) else { return false };
        if self.is_verified(&name, &password) {
            return true;
        }
        let Ok(turn) = Arc::clone(&self.checks).acquire_owned().await else { return false };
        let users = Arc::clone(self);
        let checked = spawn_blocking(move || {
            let _turn = turn;
            users.is_verified(&name, &password) || users.check(name, &password)
        });
        checked.await.unwrap_or_else(|error| {
            error!(%error, "login not checked");
            false
        })
    }

    fn is_verified(&self, name: &str, password: &[u8]) -> bool {
        let known = self.lock().get(name).copied();
        // In constant time.
        known.is_some_and(|tag| hmac::verify(&self.key, password, tag.as_ref()).is_ok())
    }

    fn check(&self, name: String, password: &[u8]) -> bool {
        let hash = self.hashes.get(&name);
        let matches = bcrypt::verify(password, hash.unwrap_or(&self.nobodys)).unwrap_or(false);
        let right = matches && hash.is_some();
        if right {
            self.lock().insert(name, hmac::sign(&self.key, password));
        }
        right
    }

    /// An insert that panicked left the map whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, hmac::Tag>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hash of this cost that no password has: it is that of a random one, at another cost.
fn nobodys(cost: u32, random: &SystemRandom) -> Option<String> {
    let mut password = [0; 16];
    random.fill(&mut password).ok()?;
    let hash = bcrypt::hash(password, *COSTS.start()).ok()?;
    Some(hash.replacen("$04$", &format!("${cost:02}$"), 1))
}

/// The user and the password of `Basic BASE64(user:password)`.
fn credentials(authorization: &HeaderValue) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = authorization.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let name = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((name, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn users(of: &[(&str, u32)]) -> Arc<Users> {
        let hashes = of.iter().map(|(name, cost)| {
            let value = bcrypt::hash(format!("{name}'s"), *cost).unwrap();
            ((*name).to_owned(), Text { key: format!("basic_auth_users.{name}"), line: 1, value })
        });
        let mut report = Report::of(Path::new("web.yml"));
        let users = Users::of(hashes.collect(), &Arc::new(Semaphore::new(1)), &mut report).expect("good hashes");
        Arc::new(users)
    }

    fn header(text: &str) -> HeaderValue {
        HeaderValue::from_str(text).unwrap()
    }

    fn basic(user: &str, password: &str) -> HeaderValue {
        header(&format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
    }

    #[tokio::test]
    async fn only_the_right_password_of_a_known_user_is_admitted() {
        let users = users(&[("ann", 4), ("bob", 5)]);
        for (user, password, admitted) in [
            ("ann", "ann's", true),
            ("ann", "ann's", true),
            ("bob", "bob's", true),
            ("ann", "bob's", false),
            ("ann", "", false),
            ("ann", "ann's\0", false),
            ("Ann", "ann's", false),
            ("eve", "ann's", false),
            ("", "", false),
        ] {
            assert_eq!(users.admit(Some(&basic(user, password))).await, admitted, "{user}:{password:?}");
        }
        assert!(!users.admit(None).await);
    }

    #[test]
    fn what_is_no_basic_authorization_names_nobody() {
        for text in ["", "Basic", "Basic ", "Basic ====", "Basic YW5u", "Bearer YTpi", "Basic YTpi YTpi", "YTpi"] {
            assert_eq!(credentials(&header(text)), None, "{text:?}");
        }
        assert_eq!(credentials(&HeaderValue::from_bytes(b"Basic \xff").unwrap()), None);
        let pair = Some(("a".to_owned(), b"b:\xff".to_vec()));
        assert_eq!(credentials(&header(&format!("bAsIc {}", BASE64_STANDARD.encode(b"a:b:\xff")))), pair);
    }

    #[tokio::test]
    async fn a_password_is_checked_once_and_only_the_right_one_is_remembered() {
        let users = users(&[("ann", 4)]);
        let turn = Arc::clone(&users.checks).acquire_owned().await.unwrap();
        // No check gets its turn, so whoever is admitted is so from memory.
        assert!(
            tokio::time::timeout(std::time::Duration::from_millis(10), users.admit(Some(&basic("ann", "ann's"))))
                .await
                .is_err()
        );
        drop(turn);
        assert!(users.admit(Some(&basic("ann", "ann's"))).await);
        assert!(!users.admit(Some(&basic("ann", "wrong"))).await);
        assert!(!users.admit(Some(&basic("eve", "wrong"))).await);
        let _turn = Arc::clone(&users.checks).acquire_owned().await.unwrap();
        assert!(users.admit(Some(&basic("ann", "ann's"))).await);
        assert_eq!(users.lock().keys().collect::<Vec<_>>(), ["ann"]);
    }

    #[tokio::test]
    async fn a_check_that_nobody_waits_for_goes_on_and_is_remembered() {
        let users = users(&[("ann", 8)]);
        let waiting = tokio::spawn({
            let users = Arc::clone(&users);
            async move { users.admit(Some(&basic("ann", "ann's"))).await }
        });
        while users.checks.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        let _done = users.checks.acquire().await.unwrap();
        assert!(users.is_verified("ann", b"ann's"));
    }

    #[test]
    fn an_unknown_user_costs_what_the_dearest_known_one_does() {
        let users = users(&[("ann", 4), ("bob", 6)]);
        assert_eq!(HashParts::from_str(&users.nobodys).unwrap().get_cost(), 6);
    }

    #[test]
    fn a_hash_that_is_none_or_takes_for_ever_is_refused_and_not_shown() {
        let of = |hash: &str| {
            let text = Text { key: "basic_auth_users.ann".into(), line: 3, value: hash.into() };
            let mut report = Report::of(Path::new("web.yml"));
            assert!(Users::of(vec![("ann".into(), text)], &Arc::new(Semaphore::new(1)), &mut report).is_none());
            report.into_error().to_string()
        };
        let dear = bcrypt::hash("x", 4).unwrap().replace("$04$", "$31$");
        let place = "`basic_auth_users.ann` (web.yml, line 3)";
        assert_eq!(of(&dear), format!("{place} has a bcrypt cost of 31, which must be 4 to 16; 10 is usual"));
        assert_eq!(of("hunter2"), format!("{place} must be a bcrypt hash, as `htpasswd -nBC 10 NAME` makes it"));
    }
}
