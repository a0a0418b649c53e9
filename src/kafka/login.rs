//! OAUTHBEARER: the token that a client logs in with, read anew from its file each time librdkafka asks for one.
//!
//! librdkafka asks when a client is made and once four fifths of a token's life are over, on the queue that the client is
//! polled on; until the first answer the client connects to nobody. So each client is polled before its first call that
//! waits for a broker ([`Login::await_answer`]), and an admin client, which rdkafka never polls, can't log in.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rdkafka::client::OAuthToken;
use serde::Deserialize;
use thiserror::Error;
use tracing::warn;

use super::client::Deadline;
use super::settings::Settings;
use crate::clock::{SystemClock, system_time};
use crate::limiter;
use crate::time::{Clock, Timestamp};

/// A larger file holds something else.
const MAX_BYTES: u64 = 64 * 1024;
/// librdkafka asks at once; this long it is waited for.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// How a client logs in, as far as that takes a token. Clones share what is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Login(Option<Arc<TokenFile>>);

#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    /// Whether failures are logged here; else they are part of the client's answer.
    logs: bool,
    last: Mutex<Answer>,
}

/// What librdkafka was last told.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    None,
    Token,
    Failure(String),
}

/// Why a file gives no token. Never with anything of its content.
#[derive(Debug, Error)]
enum TokenError {
    #[error("the token file {} can't be read: {}: put the token there, where this user may read it", path.display(), error.kind())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("the token file {} holds no JWT that says when it expires (exp), and is not sent: put one there", path.display())]
    NoToken { path: PathBuf },
    #[error("the token in {} expired at {}: put a current one there", path.display(), humantime::format_rfc3339_seconds(system_time(*at)))]
    Expired { path: PathBuf, at: Timestamp },
}

/// The part of a token that is looked at; nothing of it is verified here, which is the broker's to do.
#[derive(Deserialize)]
struct Claims {
    /// Seconds since the epoch.
    exp: f64,
    /// For librdkafka's own log.
    #[serde(default)]
    sub: String,
}

impl Login {
    pub(super) fn of(settings: &Settings) -> Self {
        Self::new(settings, true)
    }

    /// Of a client whose user reports what went wrong.
    pub(super) fn silent(settings: &Settings) -> Self {
        Self::new(settings, false)
    }

    fn new(settings: &Settings, logs: bool) -> Self {
        let path = PathBuf::from(&settings.oauth_token_file);
        let file = || Arc::new(TokenFile { path, logs, last: Mutex::new(Answer::None) });
        Self(settings.uses_token().then(file))
    }

    /// The answer to librdkafka.
    pub(super) fn token(&self) -> Result<OAuthToken, Box<dyn Error>> {
        let file = self.0.as_ref().ok_or("no kafka.oauth_token_file is set")?;
        let token = read(&file.path, SystemClock::new().now());
        let answer = match &token {
            Ok(_) => Answer::Token,
            Err(error) => Answer::Failure(error.to_string()),
        };
        if let Answer::Failure(text) = &answer
            && file.logs
            && let Some(repeated) = limiter::admit(text)
        {
            warn!(repeated, "no token to log in with: {text}");
        }
        *file.last.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        Ok(token?)
    }

    /// Polls until librdkafka has asked for the first token.
    pub(super) fn await_answer(&self, poll: impl Fn(Duration)) {
        let Some(file) = &self.0 else { return };
        let deadline = Deadline::after(FIRST_ANSWER);
        while file.last() == Answer::None && !deadline.passed() {
            poll(Duration::from_millis(10));
        }
    }

    /// Why there was no token when librdkafka last asked.
    pub(super) fn failure(&self) -> Option<String> {
        match self.0.as_ref()?.last() {
            Answer::Failure(text) => Some(format!("no token to log in with: {text}")),
            Answer::None | Answer::Token => None,
        }
    }
}

impl TokenFile {
    fn last(&self) -> Answer {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(path: &Path, now: Timestamp) -> Result<OAuthToken, TokenError> {
    let mut bytes = Vec::new();
    let content = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    content.map_err(|error| TokenError::Unreadable { path: path.into(), error })?;
    let (token, claims) = parse(&bytes).ok_or_else(|| TokenError::NoToken { path: path.into() })?;
    // As whole milliseconds; a float beyond them is cut to their range.
    let expires = Timestamp((claims.exp * 1000.0) as i64);
    if expires <= now {
        return Err(TokenError::Expired { path: path.into(), at: expires });
    }
    Ok(OAuthToken { token, principal_name: claims.sub, lifetime_ms: expires.0 })
}

/// A compact JWT and what it claims. One without a signature has an empty last part.
fn parse(bytes: &[u8]) -> Option<(String, Claims)> {
    let token = str::from_utf8(bytes).ok()?.trim();
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let is_sound = bytes.len() as u64 <= MAX_BYTES
        && token.bytes().all(|byte| byte.is_ascii_graphic())
        && claims.exp >= 0.0
        && !claims.sub.contains('\0');
    is_sound.then(|| (token.to_owned(), claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn jwt(claims: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#), URL_SAFE_NO_PAD.encode(claims))
    }

    fn read_of(content: &str) -> Result<(String, String, i64), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let read = read(file.path(), NOW).map(|token| (token.token, token.principal_name, token.lifetime_ms));
        read.map_err(|error| error.to_string().replace(file.path().to_str().unwrap(), "FILE"))
    }

    #[test]
    fn principal_and_lifetime_are_those_of_the_token() {
        let token = jwt(r#"{"sub":"collector","exp":1700000060.5,"aud":["kafka"]}"#);
        assert_eq!(read_of(&format!("{token}\n")), Ok((token, "collector".into(), 1_700_000_060_500)));
        let nameless = jwt(r#"{"exp":1700000060}"#);
        assert_eq!(read_of(&nameless), Ok((nameless, String::new(), 1_700_000_060_000)));
    }

    #[test]
    fn what_is_no_token_is_named_by_its_file_and_not_shown() {
        let no_token =
            "the token file FILE holds no JWT that says when it expires (exp), and is not sent: put one there";
        let (two_lines, huge) = (jwt(r#"{"exp":1700000060}"#) + "\nx", "x".repeat(100_000));
        for content in ["", "hunter2", "a.b.c", &jwt(r#"{"sub":"x"}"#), &jwt(r#"{"exp":-1}"#), &two_lines, &huge] {
            assert_eq!(read_of(content), Err(no_token.into()), "{content}");
        }
        assert_eq!(
            read_of(&jwt(r#"{"sub":"x","exp":1699999999}"#)),
            Err("the token in FILE expired at 2023-11-14T22:13:19Z: put a current one there".into())
        );
        let missing = read(Path::new("/nowhere/token"), NOW).map(|_| ()).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the token file /nowhere/token can't be read: entity not found: put the token there, where this user may \
             read it"
        );
    }
}
