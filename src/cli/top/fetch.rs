//! Asks a running service for its status.

use std::io;
use std::time::Duration;

use thiserror::Error;
use ureq::Agent;
use ureq::http::Uri;

use super::status::Status;
use crate::cli::foreign::Foreign;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Many times what a status has.
const MAX_BYTES: u64 = 8 << 20;

/// Why there is no status.
#[derive(Debug, Error)]
pub enum Error {
    #[error("no service answers at {url}: {why}; is it running there? --url is the address of its admin.listen")]
    NoAnswer { url: Uri, why: Foreign },
    #[error(
        "what answers at {url} is no duplex-collector of this release: {why}; --url is the address of its admin.listen"
    )]
    NotOurs { url: Uri, why: Foreign },
}

impl Error {
    /// The cause alone.
    pub fn why(&self) -> &Foreign {
        let (Self::NoAnswer { why, .. } | Self::NotOurs { why, .. }) = self;
        why
    }
}

/// What of the service's runs is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    pub run: Option<String>,
    pub model: Option<String>,
    pub window: Option<String>,
}

/// Asks one service.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    pub url: Uri,
}

impl Client {
    pub fn new(url: Uri) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0);
        Self { agent: config.build().new_agent(), url }
    }

    /// The status of what is selected.
    ///
    /// # Errors
    /// When nobody answers within 5 s, or what answers is not the service.
    pub fn fetch(&self, selection: &Selection) -> Result<Status, Error> {
        let Selection { run, model, window } = selection;
        let mut request = self.agent.get(format!("{}status", self.url));
        for (key, value) in [("run", run), ("model", model), ("window", window)] {
            if let Some(value) = value {
                request = request.query(key, value);
            }
        }
        let mut response = request.call().map_err(|error| self.failed(&error))?;
        if response.status() != 200 {
            return Err(self.not_ours(format!("/status has status {}", response.status())));
        }
        let body = response.body_mut().with_config().limit(MAX_BYTES).read_to_vec();
        let body = body.map_err(|error| self.failed(&error))?;
        serde_json::from_slice(&body).map_err(|error| self.not_ours(format!("/status can't be read: {error}")))
    }

    fn failed(&self, error: &ureq::Error) -> Error {
        let why = match error {
            ureq::Error::Timeout(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => "connection refused".into(),
            ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => error.to_string(),
            _ => return self.not_ours(error.to_string()),
        };
        Error::NoAnswer { url: self.url.clone(), why: Foreign(why) }
    }

    fn not_ours(&self, why: String) -> Error {
        Error::NotOurs { url: self.url.clone(), why: Foreign(why) }
    }
}

/// The address of a service, with or without `http://`.
///
/// # Errors
/// When it is none.
pub fn url(text: &str) -> Result<Uri, String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = with_scheme.parse().map_err(|error| format!("{error}; an example is http://127.0.0.1:9464"))?;
    match (url.scheme_str(), url.path_and_query().map(|rest| rest.as_str())) {
        _ if url.host().is_none_or(str::is_empty) => Err("no host; an example is http://127.0.0.1:9464".into()),
        (Some("http"), None | Some("/")) => Ok(url),
        (Some("http"), _) => Err("only host and port, such as http://127.0.0.1:9464".into()),
        _ => {
            Err("only http://, as the service speaks it; to one behind a proxy with TLS go from its own machine".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_scheme() {
        for text in ["http://127.0.0.1:9464", "http://127.0.0.1:9464/", "127.0.0.1:9464"] {
            assert_eq!(url(text).unwrap().to_string(), "http://127.0.0.1:9464/");
        }
        for text in ["https://collector:9464", "http://collector/report", "ftp://x", "http://", "a b", ""] {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
