//! The web-config file that Prometheus' exporters share: TLS, a login, headers and a rate limit for the HTTP server.
//!
//! Its format is that of exporter-toolkit's docs/web-configuration.md. What changes on disk is in force for new
//! connections within a few seconds; what has become bad is not, and what was in force before stays so.

mod client_auth;
mod content;
mod files;
mod login;
mod rate;
mod report;
#[cfg(test)]
mod tests;
mod tls;
mod yaml;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use rustls::ServerConfig;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use self::content::Content;
use self::files::Files;
use self::login::Users;
use self::rate::Rate;
use self::report::{Report, reason};

pub use self::report::WebConfigError;

/// How often the files are looked at. One that changed is read once two looks saw it the same, for certificate and key
/// are two files, and who replaces them may be between the two.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A web-config file and what is in force of it.
pub struct WebConfig {
    path: PathBuf,
    in_force: RwLock<Arc<Security>>,
    watched: Mutex<Watched>,
    /// Of all users, also of those that a reload brings.
    checks: Arc<Semaphore>,
}

/// What a connection and its request are held to.
#[derive(Clone, Default)]
pub(super) struct Security {
    pub tls: Option<Arc<ServerConfig>>,
    users: Option<Arc<Users>>,
    rate: Option<Arc<Rate>>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The files as they were.
struct Watched {
    /// When they were read the last time, well or not.
    read: Files,
    /// At the last look.
    seen: Files,
}

impl WebConfig {
    /// Reads the file and those that it names.
    ///
    /// # Errors
    /// With everything that is wrong.
    pub fn load(path: &Path) -> Result<Self, WebConfigError> {
        let checks = Arc::new(Semaphore::new(1));
        let mut files = Files::default();
        let security = read(path, &checks, &mut files)?;
        let watched = Mutex::new(Watched { seen: files.clone(), read: files });
        Ok(Self { path: path.to_owned(), in_force: RwLock::new(Arc::new(security)), watched, checks })
    }

    /// Whether connections are encrypted.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.security().tls.is_some()
    }

    /// Whether a request needs a user and a password.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.security().needs_login()
    }

    /// Keeps every check of a password waiting for as long as it is held.
    #[cfg(test)]
    pub(super) async fn hold_checks(&self) -> tokio::sync::OwnedSemaphorePermit {
        Arc::clone(&self.checks).acquire_owned().await.expect("never closed")
    }

    /// What a connection that opens now is held to.
    pub(super) fn security(&self) -> Arc<Security> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what changes on disk; never ends.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let this = Arc::clone(&self);
            match spawn_blocking(move || this.look()).await {
                Ok(None) => {}
                Ok(Some(Ok(()))) => {
                    let (file, tls, login) = (self.path.display(), self.has_tls(), self.has_login());
                    info!(%file, tls, login, "web config reloaded");
                }
                Ok(Some(Err(cause))) => warn!(cause, "web config not reloaded; what was in force stays so"),
                Err(error) => error!(%error, "web config not looked at"),
            }
        }
    }

    /// Reads the files anew if they changed since they were read, and not since the last look: whether they are in force
    /// now, or why they are not.
    fn look(&self) -> Option<Result<(), String>> {
        let mut watched = lock(&self.watched);
        let now = watched.read.now();
        let is_settled = now == watched.seen;
        watched.seen = now;
        if watched.seen == watched.read || !is_settled {
            return None;
        }
        let mut files = Files::default();
        let outcome = match read(&self.path, &self.checks, &mut files) {
            Ok(security) => {
                let security = security.succeeding(&self.security());
                *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(security);
                Ok(())
            }
            Err(error) => {
                // A file that can't be read names no others.
                files = files.with(watched.read.now());
                Err(error.to_string().replace('\n', "; "))
            }
        };
        *watched = Watched { seen: files.now(), read: files };
        Some(outcome)
    }
}

impl fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebConfig").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Security {
    pub fn needs_login(&self) -> bool {
        self.users.is_some()
    }

    /// Whether a request at this monotonic time is within the rate limit.
    pub fn is_within_rate(&self, now: Duration) -> bool {
        self.rate.as_ref().is_none_or(|rate| rate.admit(now))
    }

    /// Whether a request with this `Authorization` may be answered.
    pub async fn admits(&self, authorization: Option<&HeaderValue>) -> bool {
        match &self.users {
            Some(users) => users.admit(authorization).await,
            None => true,
        }
    }

    /// With what `earlier` knows of users and requests, where these settings are the same.
    fn succeeding(mut self, earlier: &Self) -> Self {
        if let (Some(users), Some(known)) = (&self.users, &earlier.users)
            && users.same(known)
        {
            self.users = Some(Arc::clone(known));
        }
        if let (Some(rate), Some(known)) = (&self.rate, &earlier.rate)
            && rate.same(known)
        {
            self.rate = Some(Arc::clone(known));
        }
        self
    }
}

fn read(path: &Path, checks: &Arc<Semaphore>, files: &mut Files) -> Result<Security, WebConfigError> {
    let mut report = Report::of(path);
    let text = files
        .read(path)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is no text in UTF-8")));
    let text = text.map_err(|error| {
        let (path, reason) = (path.display(), reason(&error));
        WebConfigError(vec![format!(
            "{path} can't be read: {reason}; set admin.web_config to a file that this user may read"
        )])
    })?;
    let security = match yaml::read(&text) {
        Ok(document) => {
            let content = Content::of(&document, &mut report);
            let folder = path.parent().unwrap_or(Path::new(""));
            Security {
                tls: content.tls.as_ref().and_then(|tls| tls::server_config(tls, folder, files, &mut report)),
                users: Users::of(content.users, checks, &mut report).map(Arc::new),
                rate: content.rate_limit.map(|limit| Arc::new(Rate::new(limit))),
                headers: content.headers,
            }
        }
        Err(broken) => {
            report.syntax(broken.line, broken.column, &broken.why);
            Security::default()
        }
    };
    if report.is_empty() { Ok(security) } else { Err(report.into_error()) }
}

fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}
