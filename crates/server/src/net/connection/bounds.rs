//! The bounds of an HTTP connection, and hyper's settings that enforce some of them.

use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::net::ListenerConfig;

/// The bounds of an HTTP connection.
#[derive(Clone, Debug)]
pub struct HttpBounds {
    /// For one head, from its first byte. The first head shares it with the new connection.
    pub header_timeout: Duration,
    /// How long a client can go without a request, or without reading its responses.
    pub idle_timeout: Duration,
    /// The largest head in bytes.
    pub max_head: usize,
    /// HTTP/1: how many bytes can be buffered besides a head.
    pub max_buffered: usize,
    /// Whether requests are forwarded to other servers. Then they can switch the protocol, and end when
    /// the client closes its side.
    pub is_proxy: bool,
    /// Whether only HTTP/2 is accepted.
    pub is_http2_only: bool,
    /// What applies to HTTP/2 only.
    pub http2: Http2Bounds,
}

/// The bounds of an HTTP/2 connection.
#[derive(Clone, Copy, Debug)]
pub struct Http2Bounds {
    /// The most requests at a time.
    pub max_streams: u32,
    /// The largest head in bytes, as HTTP/2 counts them.
    pub max_head: usize,
    /// The most bytes of one request's body that can be buffered.
    pub stream_window: usize,
    /// The same for all requests together.
    pub connection_window: usize,
    /// How many requests can be cancelled before they are answered. More end the connection.
    pub max_resets: usize,
    /// How many requests can violate the protocol. More end the connection.
    pub max_errors: usize,
    /// How often a silent client is pinged, to detect one that is gone without closing the connection.
    pub ping_every: Duration,
    /// How long the answer to a ping can take.
    pub ping_timeout: Duration,
    /// Whether responses have a `Date`.
    pub has_date: bool,
}

impl HttpBounds {
    /// The bounds of a listener that answers small requests itself.
    pub fn new(config: &ListenerConfig) -> Self {
        Self {
            header_timeout: config.header_timeout,
            idle_timeout: config.idle_timeout,
            max_head: config.max_head,
            max_buffered: config.max_body,
            is_proxy: false,
            is_http2_only: false,
            http2: Http2Bounds {
                max_streams: config.max_streams,
                max_head: config.max_head,
                // One body fits into the window; anything beyond that is read as it is consumed.
                stream_window: config.max_body.max(MIN_WINDOW),
                connection_window: config.max_body.max(CONNECTION_WINDOW),
                max_resets: MAX_RESETS,
                max_errors: MAX_ERRORS,
                ping_every: PING_EVERY,
                ping_timeout: config.header_timeout,
                has_date: true,
            },
        }
    }

    pub(super) fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        // Not `pipeline_flush`: it withholds an answer while any byte of another request is unread,
        // never sends hyper's own 400 and 431, and lifts the bound on what waits to be written.
        builder
            // A client that has finished sending still waits for its responses. A proxy cannot tell it
            // from a client that has gone, and must not keep a service busy for that one.
            .half_close(!self.is_proxy)
            // `HttpConnectionTimer` does this instead: it distinguishes a slow head from an idle
            // connection.
            .header_read_timeout(None)
            .max_header_size(self.max_head)
            // Bounds the memory of a connection. hyper panics on less than 8 KiB.
            .max_buf_size(self.max_head.saturating_add(self.max_buffered).max(8 << 10));
        builder
    }

    pub(super) fn http2(&self) -> http2::Builder<TokioExecutor> {
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX >> 1);
        let bounds = &self.http2;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(bounds.max_streams)
            .max_header_list_size(size(bounds.max_head))
            .max_pending_accept_reset_streams(bounds.max_resets)
            .max_local_error_reset_streams(bounds.max_errors)
            .initial_stream_window_size(size(bounds.stream_window))
            .initial_connection_window_size(size(bounds.connection_window))
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(bounds.ping_every)
            .keep_alive_timeout(bounds.ping_timeout)
            .auto_date_header(bounds.has_date);
        builder
    }
}

/// The protocol's initial window.
const MIN_WINDOW: usize = 65_535;
const CONNECTION_WINDOW: usize = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
const MAX_RESETS: usize = 20;
const MAX_ERRORS: usize = 100;
const PING_EVERY: Duration = Duration::from_secs(20);
