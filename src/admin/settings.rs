//! `[admin]` of the configuration.

use std::net::SocketAddr;

/// Where the HTTP server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
}

impl Default for Settings {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 9464)) }
    }
}
