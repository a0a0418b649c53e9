//! Asks a running service for its status.

use std::io;
use std::time::Duration;

use thiserror::Error;
use ureq::Agent;
use ureq::http::Uri;

use super::access::Access;
use super::status::Status;
use crate::cli::foreign::Foreign;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Many times what a status has.
const MAX_BYTES: u64 = 8 << 20;
/// How a server with TLS answers plain HTTP.
const SPEAKS_TLS: &[u8] = b"Client sent an HTTP request to an HTTPS server";

/// Why there is no status.
#[derive(Debug, Error)]
pub enum Error {
    #[error("no service answers at {url}: {why}; is it running there? --url is the address of its admin.listen")]
    NoAnswer { url: Uri, why: Foreign },
    #[error("no way in at {url}: {why}")]
    NoAccess { url: Uri, why: Foreign },
    #[error(
        "what answers at {url} is no duplex-collector of this release: {why}; --url is the address of its admin.listen"
    )]
    NotOurs { url: Uri, why: Foreign },
}

impl Error {
    /// The cause alone.
    pub fn why(&self) -> &Foreign {
        let (Self::NoAnswer { why, .. } | Self::NoAccess { why, .. } | Self::NotOurs { why, .. }) = self;
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
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    access: Access,
    pub url: Uri,
}

impl Client {
    pub fn new(url: Uri, access: Access) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .tls_config(access.tls.clone())
            .max_idle_connections(0);
        Self { agent: config.build().new_agent(), access, url }
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
        if let Some(authorization) = &self.access.authorization {
            request = request.header("authorization", authorization);
        }
        let mut response = request.call().map_err(|error| self.failed(&error))?;
        let body = response.body_mut().with_config().limit(MAX_BYTES).read_to_vec();
        match response.status().as_u16() {
            200 => {}
            401 if self.access.authorization.is_none() => {
                return Err(self.no_access("it wants a login; give --user and --password-file"));
            }
            401 => {
                let why =
                    "it refuses this login; --user and --password-file must be of basic_auth_users of its web config";
                return Err(self.no_access(why));
            }
            400 if body.as_ref().is_ok_and(|body| body.starts_with(SPEAKS_TLS)) => {
                return Err(self.no_access("it speaks TLS; give --url with https://"));
            }
            status => return Err(self.not_ours(format!("/status has status {status}"))),
        }
        let body = body.map_err(|error| self.failed(&error))?;
        serde_json::from_slice(&body).map_err(|error| self.not_ours(format!("/status can't be read: {error}")))
    }

    fn failed(&self, error: &ureq::Error) -> Error {
        let of_tls = match error {
            ureq::Error::Rustls(error) => Some(error),
            ureq::Error::Io(error) => error.get_ref().and_then(|error| error.downcast_ref()),
            _ => None,
        };
        if let Some(error) = of_tls {
            return self.no_access(of_handshake(error, self.access.has_certificate));
        }
        let why = match error {
            ureq::Error::Timeout(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => "connection refused".into(),
            ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => error.to_string(),
            _ => return self.not_ours(error.to_string()),
        };
        Error::NoAnswer { url: self.url.clone(), why: Foreign(why) }
    }

    fn no_access(&self, why: impl Into<String>) -> Error {
        Error::NoAccess { url: self.url.clone(), why: Foreign(why.into()) }
    }

    fn not_ours(&self, why: String) -> Error {
        Error::NotOurs { url: self.url.clone(), why: Foreign(why) }
    }
}

/// What a handshake failed of, with the remedy.
fn of_handshake(error: &rustls::Error, has_certificate: bool) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error, InvalidMessage};
    match error {
        Error::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate is of a CA that is not known here; give --ca-file that CA's certificate".into()
        }
        Error::InvalidCertificate(Certificate::NotValidForNameContext { presented, .. }) => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            format!("its certificate is for other names; give --url with one of them: {}", names.join(", "))
        }
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired; it needs another in its web config".into()
        }
        Error::InvalidCertificate(_) => format!("its certificate can't be trusted: {error}"),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS; give --url with http://".into()
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "it wants a client certificate; give --cert-file and --key-file".into()
        }
        Error::AlertReceived(alert) if has_certificate => {
            format!("it refuses this handshake ({alert:?}); --cert-file must be of a CA in client_ca of its web config")
        }
        error => format!("the handshake failed: {error}"),
    }
}

/// A name of a certificate out of `DnsName("a.example")` or `IpAddress(10.0.0.7)`.
fn bare(presented: &str) -> &str {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"')
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
        _ if url.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
            Err("no login here, where others see it; give --user and --password-file".into())
        }
        (Some("http" | "https"), None | Some("/")) => Ok(url),
        (Some("http" | "https"), _) => Err("only host and port, such as http://127.0.0.1:9464".into()),
        _ => Err("only http:// and https://".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_certificate_are_shown_bare() {
        for (presented, shown) in
            [("DnsName(\"a.example\")", "a.example"), ("IpAddress(10.0.0.7)", "10.0.0.7"), ("a.example", "a.example")]
        {
            assert_eq!(bare(presented), shown);
        }
    }

    #[test]
    fn an_address_may_lack_its_scheme() {
        for text in ["http://127.0.0.1:9464", "http://127.0.0.1:9464/", "127.0.0.1:9464"] {
            assert_eq!(url(text).unwrap().to_string(), "http://127.0.0.1:9464/");
        }
        assert_eq!(url("https://collector:9464").unwrap().to_string(), "https://collector:9464/");
        for text in ["http://collector/report", "https://ann:secret@collector", "ftp://x", "http://", "a b", ""] {
            assert!(url(text).is_err(), "{text}");
        }
    }
}
