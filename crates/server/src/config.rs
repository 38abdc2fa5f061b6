//! What a listener puts up with.

use std::time::Duration;

use crate::resp::Password;

/// The bounds of one listener, on all workers together. A client can exhaust none of them for
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections at a time; 10,000 unless said. Others wait to be accepted.
    pub max_connections: usize,
    /// From a request's first byte, or from the connection, to the end of its head; for a TLS
    /// handshake too. 5 seconds unless said.
    pub header_timeout: Duration,
    /// From the end of a request's head to the end of its body; 5 seconds unless said.
    pub body_timeout: Duration,
    /// How long a connection may stay silent between requests; a minute unless said.
    pub idle_timeout: Duration,
    /// The largest head in bytes; 16 KiB unless said.
    pub max_head: usize,
    /// The largest body in bytes; 64 KiB unless said.
    pub max_body: usize,
    /// The most requests at a time on one HTTP/2 connection; 200 unless said.
    pub max_streams: u32,
    /// gRPC: whether each descriptor of a request is charged by itself, also when another one is
    /// over its limit, as envoyproxy/ratelimit does; all or none are unless said.
    pub charge_each: bool,
    /// How long to go on as before once told to stop, with `/readyz` failing, so that a load
    /// balancer can turn away; not at all unless said.
    pub drain_delay: Duration,
    /// How long requests in flight may then take; 10 seconds unless said.
    pub drain_timeout: Duration,
    /// What Redis clients must know; nothing unless said.
    pub resp_password: Option<Password>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            max_head: 16 << 10,
            max_body: 64 << 10,
            max_streams: 200,
            charge_each: false,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
            resp_password: None,
        }
    }
}
