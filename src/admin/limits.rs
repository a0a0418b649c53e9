//! What one peer, or a crowd of them, may take from the server. Constants: an address that others can reach wants a web
//! config with a login, not larger limits.

use std::time::Duration;

/// The server's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at once; a further one takes the place of one whose peer is waited for.
    pub connections: usize,
    /// A request's line and headers, in bytes; more is answered with 431.
    pub head_bytes: usize,
    /// From the connect until the whole head of the request is there, the TLS handshake included.
    pub head: Duration,
    /// From the connect until the answer is taken.
    pub connection: Duration,
    /// How long a peer that still sends after its answer is listened to: closed on at once, it would lose the answer.
    pub linger: Duration,
    /// How long requests in progress may take once the shutdown began.
    pub grace: Duration,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        connections: 128,
        head_bytes: 16 << 10,
        head: Duration::from_secs(5),
        connection: Duration::from_secs(30),
        linger: Duration::from_secs(1),
        grace: Duration::from_secs(2),
    };
}
