//! The bounds of a listener, whatever its transport.

use std::time::Duration;

/// The bounds of one listener, for all workers together. No client can take all connections away
/// from others: see [`max_connections_per_client`](Self::max_connections_per_client).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The most connections at a time. Defaults to 10,000. When all are taken, the client with the most
    /// connections gives one up to a client with fewer: first an idle one, then one whose request is
    /// incomplete. If none can be evicted, up to a tenth as many connections wait, and others are refused.
    pub max_connections: usize,
    /// How many connections a client keeps when all are taken, whatever it does with them: beyond
    /// that, requests in progress are cut off in favour of other clients. A client is an IPv4 address, or
    /// a /64 network of IPv6. Defaults to a tenth of all connections, and at least 8; the default does not
    /// apply to loopback addresses. It never applies to trusted proxies and unix sockets, which carry the
    /// requests of many clients.
    pub max_connections_per_client: Option<usize>,
    /// From a request's first byte, or from the start of the connection, to the end of its head. Also
    /// limits a TLS handshake. Defaults to 5 seconds.
    pub header_timeout: Duration,
    /// From the end of a request's head to the end of its body. Defaults to 5 seconds.
    pub body_timeout: Duration,
    /// How long a connection may stay silent between requests. Defaults to a minute.
    pub idle_timeout: Duration,
    /// The largest head in bytes. Defaults to 16 KiB.
    pub max_head: usize,
    /// The largest body in bytes. Defaults to 64 KiB.
    pub max_body: usize,
    /// The most requests at a time on one HTTP/2 connection. Defaults to 200.
    pub max_streams: u32,
    /// How long a stopping server serves as before with `/readyz` failing, so that load balancers take it
    /// out of rotation. Defaults to zero.
    pub drain_delay: Duration,
    /// How long requests in flight can take after that. Defaults to 10 seconds.
    pub drain_timeout: Duration,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_connections_per_client: None,
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            max_head: 16 << 10,
            max_body: 64 << 10,
            max_streams: 200,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
        }
    }
}
