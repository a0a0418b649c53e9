//! Who may ask what: holds a connection and its request to the web config that was in force when it came.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rustls::ServerConfig;

use super::connections::{Phase, Turn};
use super::routes::with_fixed_headers;
use super::web_config::{Security, WebConfig};
use crate::time::Clock;

/// What a browser and Prometheus show of the login.
const CHALLENGE: (HeaderName, HeaderValue) =
    (header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"duplex-collector\", charset=\"UTF-8\""));

/// The server's web config, or none.
#[derive(Clone)]
pub(super) struct Guard {
    web_config: Option<Arc<WebConfig>>,
    clock: Arc<dyn Clock + Send + Sync>,
}

/// What one connection is held to.
pub(super) struct Rules {
    security: Arc<Security>,
    clock: Arc<dyn Clock + Send + Sync>,
}

impl Guard {
    pub fn new(web_config: Option<Arc<WebConfig>>, clock: Arc<dyn Clock + Send + Sync>) -> Self {
        Self { web_config, clock }
    }

    /// What a connection that opens now is held to.
    pub fn rules(&self) -> Rules {
        let security = self.web_config.as_ref().map_or_else(Arc::default, |web_config| web_config.security());
        Rules { security, clock: Arc::clone(&self.clock) }
    }

    /// Takes over what changes in the web config; never ends.
    pub async fn follow(self) {
        match self.web_config {
            Some(web_config) => web_config.follow().await,
            None => pending().await,
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("web_config", &self.web_config).finish_non_exhaustive()
    }
}

impl Rules {
    /// The handshake's settings, where one is needed.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.security.tls.clone()
    }

    /// Lets a request with these headers pass, or answers it; its turn is then that of the answer.
    pub async fn admit(&self, headers: &HeaderMap, turn: &Turn) -> Result<(), Response> {
        let refused = if !self.security.is_within_rate(self.clock.monotonic()) {
            (StatusCode::TOO_MANY_REQUESTS, "more requests than rate_limit of the web config has\n").into_response()
        } else if self.security.needs_login() {
            turn.set(Phase::Checking);
            if self.security.admits(headers.get(header::AUTHORIZATION)).await {
                turn.set(Phase::Answering);
                return Ok(());
            }
            (StatusCode::UNAUTHORIZED, [CHALLENGE], "no or another login than basic_auth_users of the web config has\n")
                .into_response()
        } else {
            turn.set(Phase::Answering);
            return Ok(());
        };
        Err(with_fixed_headers(refused))
    }

    /// The answer with the headers of the web config, but for those that it has: the page's policy is its own.
    pub fn with_headers(&self, mut answer: Response) -> Response {
        for (name, value) in &self.security.headers {
            answer.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        answer
    }
}
