//! The bounds of a listener.

use std::time::Duration;

use crate::ClientRights;
use crate::resp::Password;

/// The bounds of one listener, across all workers. No client can exhaust them for others: see
/// [`max_connections_per_client`](Self::max_connections_per_client).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Connections at a time. Defaults to 10,000. When all are taken, the client that has the most
    /// gives one up to a client that has fewer: first one that is silent, then one that has not
    /// finished asking. If nobody can make way, up to a tenth as many wait, and others are refused.
    pub max_connections: usize,
    /// How many connections a client keeps when all are taken, whatever it does with them: beyond
    /// that, requests under way are cut off for others. A client is an IPv4 address, or an IPv6
    /// network of 64 bits. Defaults to a tenth of all, and at least 8; by default it does not hold for
    /// loopback addresses. It never holds for trusted proxies and unix sockets, which speak for many.
    pub max_connections_per_client: Option<usize>,
    /// From a request's first byte, or from the connection, to the end of its head; for a TLS
    /// handshake too. Defaults to 5 seconds.
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
    /// gRPC: whether each descriptor of a request is charged on its own, even if another one is
    /// over its limit, as envoyproxy/ratelimit does. By default all are charged or none.
    pub charge_each: bool,
    /// How long to go on as before once told to stop, with `/readyz` failing, so that a load
    /// balancer can turn away. Defaults to zero.
    pub drain_delay: Duration,
    /// How long requests in flight may take after that. Defaults to 10 seconds.
    pub drain_timeout: Duration,
    /// What clients may do besides asking. Defaults to nothing.
    pub rights: ClientRights,
    /// HTTP on a loopback address: the names in `Host` that are answered, besides those of this machine
    /// and addresses. Any other name may be one that somebody else's DNS points here.
    pub http_hosts: Vec<String>,
    /// The password that Redis clients must send. Defaults to none.
    pub resp_password: Option<Password>,
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
            charge_each: false,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
            rights: ClientRights::NONE,
            http_hosts: Vec::new(),
            resp_password: None,
        }
    }
}
