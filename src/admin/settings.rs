//! `[admin]` of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the HTTP server listens, and who may ask it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// The file of TLS and a login; without one there is neither.
    pub web_config: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 9464)), web_config: None }
    }
}
