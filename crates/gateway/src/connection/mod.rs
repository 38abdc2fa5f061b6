//! One client's connection: protocol detection, HTTP/1 or HTTP/2, idle phases, and shutdown.

mod client_socket;
mod progress;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tidegate::Store;
use tidegate_server::{
    GRACE, IdleEnd, ListenerConfig, QUIET, Seat, close_idle, close_idle_http2, lend, wait_idle,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::Instant;

use crate::buffers::UPLOAD_WINDOW;
use crate::session::GatewaySession;
use crate::worker::GatewayWorker;
use client_socket::ClientSocket;
use progress::{GatewayConnectionAction, GatewayConnectionTimer};

pub(crate) use client_socket::ProtocolSwitch;
pub(crate) use progress::{ActiveRequest, GatewayProgress};

/// The peer of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GatewayPeer {
    /// `None` for a Unix socket.
    pub(crate) ip: Option<IpAddr>,
    /// Whether the connection uses TLS.
    pub(crate) is_secure: bool,
}

/// Answers requests until the client disconnects or takes too long, or the gateway shuts down.
///
/// Buffers, timers and hyper's state exist only while a request is under way. An idle HTTP/1 connection
/// has none of them.
pub(crate) async fn serve<S, IO>(
    mut io: IO,
    peer: GatewayPeer,
    worker: Arc<GatewayWorker<S>>,
    mut seat: Seat,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = Instant::now();
    let (mut from, mut until) = (begun + GRACE, begun + worker.config.header_timeout);
    let mut is_h1 = false;
    loop {
        let IdleEnd::Received(first) = wait_idle(&mut io, &mut seat, from, until).await else {
            return close_idle(io).await;
        };
        // The time for the first head starts with the connection, not with its first byte.
        let due = if is_h1 { Instant::now() + worker.config.header_timeout } else { until };
        let timer = GatewayConnectionTimer::new(
            GatewayProgress::new(seat.work(), &worker.gateway.budget),
            seat,
            due,
        );
        match Box::pin(answer(io, first, is_h1, peer, &worker, timer)).await {
            Some((silent, rest)) => (io, (seat, from)) = (silent, rest),
            None => return,
        }
        is_h1 = true;
        until = from + worker.config.idle_timeout.saturating_sub(QUIET);
    }
}

/// Answers requests, beginning with the bytes in `first`. If the connection becomes idle, returns the
/// stream, the seat, and since when they are idle. Returns `None` if the connection has ended.
async fn answer<S, IO>(
    io: IO,
    first: Vec<u8>,
    is_h1: bool,
    peer: GatewayPeer,
    worker: &Arc<GatewayWorker<S>>,
    mut timer: GatewayConnectionTimer,
) -> Option<(IO, (Seat, Instant))>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (config, progress) = (&worker.config, timer.progress());
    let (mut lent, lender) = lend(io);
    let mut must_close = pin!(timer.seat().wait_must_close());
    let (kept, is_h2) = tokio::select! {
        biased;
        begun = sniff_protocol(first, is_h1, &mut lent) => begun?,
        _ = poll_fn(|cx| timer.poll(config, cx)) => return None,
        () = must_close.as_mut() => return None,
    };
    let socket = ClientSocket::new(lent, kept, !is_h2, progress.clone());
    if is_h2 {
        progress.set_http2();
    }
    let session = GatewaySession::new(Arc::clone(worker), peer, progress.clone(), socket.switch());
    let session = Arc::new(session);
    let answering = Arc::clone(&session);
    let service = service_fn(move |request| {
        // Count the request now: with HTTP/2, the future is first polled later, in its own task.
        let (session, active) = (Arc::clone(&answering), answering.begin());
        async move { Ok::<_, Infallible>(GatewaySession::answer(session, request, active).await) }
    });
    let io = TokioIo::new(socket);
    let due = if is_h2 {
        let connection = pin!(h2(config).serve_connection(io, service));
        drive(connection, http2::Connection::graceful_shutdown, must_close, &mut timer, config)
            .await
    } else {
        let connection = pin!(h1(config).serve_connection(io, service).with_upgrades());
        let begin_shutdown = http1::UpgradeableConnection::graceful_shutdown;
        drive(connection, begin_shutdown, must_close, &mut timer, config).await
    };
    match due {
        Some(GatewayConnectionAction::Rest) => return Some((lender.take()?, timer.rest())),
        Some(GatewayConnectionAction::Leave) => {
            close_idle_http2(lender.take()?, progress.last_stream()).await;
        }
        Some(_) => {}
        None => {
            if let Some(tunnel) = session.take_tunnel() {
                tunnel.run().await;
            }
        }
    }
    None
}

/// Drives a connection to its end; `begin_shutdown` makes it finish its active requests and close.
/// Returns the action of the timer, or `None` if the connection ended first.
async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    begin_shutdown: impl Fn(Pin<&mut C>),
    mut must_close: Pin<&mut impl Future<Output = ()>>,
    timer: &mut GatewayConnectionTimer,
    config: &ListenerConfig,
) -> Option<GatewayConnectionAction> {
    let mut is_open = true;
    // Not `select!`: the timer must be polled after the connection.
    poll_fn(|cx| {
        loop {
            // On an error, the client disconnected or broke the protocol; hyper has answered it.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            // Not earlier: hyper would close immediately, with the client's request still unread.
            if is_open && must_close.as_mut().poll(cx).is_ready() {
                is_open = false;
                begin_shutdown(connection.as_mut());
                continue;
            }
            match ready!(timer.poll(config, cx)) {
                GatewayConnectionAction::Drain => begin_shutdown(connection.as_mut()),
                due => return Poll::Ready(Some(due)),
            }
        }
    })
    .await
}

/// The first bytes, and whether they are the preface of HTTP/2. `None` if the connection ends before
/// that is clear.
async fn sniff_protocol(
    first: Vec<u8>,
    is_h1: bool,
    io: &mut (impl AsyncRead + Unpin),
) -> Option<(Bytes, bool)> {
    let mut read = first;
    loop {
        let length = read.len().min(PREFACE.len());
        if is_h1 || read.get(..length) != PREFACE.get(..length) {
            return Some((read.into(), false));
        }
        if length == PREFACE.len() {
            return Some((read.into(), true));
        }
        if io.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn h1(config: &ListenerConfig) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `progress` has this timeout: it distinguishes a slow head from an idle connection.
        .header_read_timeout(None)
        .max_header_size(config.max_head)
        // Bounds the memory of one connection. hyper panics below 8 KiB.
        .max_buf_size(config.max_head.saturating_add(BUFFER).max(8 << 10));
    builder
}

fn h2(config: &ListenerConfig) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(config.max_head).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        // `buffers` reserves this much for the request bodies of a connection.
        .initial_connection_window_size(UPLOAD_WINDOW)
        .max_send_buf_size(BUFFER)
        // Notices a client that has disappeared without closing.
        .keep_alive_interval(config.idle_timeout)
        .keep_alive_timeout(config.header_timeout);
    builder
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const BUFFER: usize = 64 << 10;
const MAX_STREAMS: u32 = 200;
const WINDOW: u32 = 128 << 10;
