//! One client's connection, from its first byte to its last.

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

/// Who is at the other end of a connection, as far as the connection tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GatewayPeer {
    /// No address on a unix socket.
    pub(crate) ip: Option<IpAddr>,
    /// Whether it speaks TLS with us.
    pub(crate) is_secure: bool,
}

/// Answers requests until the client leaves, takes too long, or the gateway closes.
///
/// Buffers, timers and hyper are there while something is under way, and gone while the client is silent.
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
        // The first head has as much time as the connection had.
        let due = if is_h1 { Instant::now() + worker.config.header_timeout } else { until };
        let deadline = GatewayConnectionTimer::new(
            GatewayProgress::new(seat.work(), &worker.gateway.budget),
            seat,
            due,
        );
        match Box::pin(answer(io, first, is_h1, peer, &worker, deadline)).await {
            Some((silent, rest)) => (io, (seat, from)) = (silent, rest),
            None => return,
        }
        is_h1 = true;
        until = from + worker.config.idle_timeout.saturating_sub(QUIET);
    }
}

/// Answers what comes, `first` to begin with, until there is a pause. Then there are the stream and
/// the seat, and from when on they are at rest.
async fn answer<S, IO>(
    io: IO,
    first: Vec<u8>,
    is_h1: bool,
    peer: GatewayPeer,
    worker: &Arc<GatewayWorker<S>>,
    mut deadline: GatewayConnectionTimer,
) -> Option<(IO, (Seat, Instant))>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (config, progress) = (&worker.config, deadline.progress());
    let (mut lent, lender) = lend(io);
    let mut told = pin!(deadline.seat().wait_must_close());
    let (kept, is_h2) = tokio::select! {
        biased;
        begun = sniff_protocol(first, is_h1, &mut lent) => begun?,
        _ = poll_fn(|cx| deadline.poll(config, cx)) => return None,
        () = told.as_mut() => return None,
    };
    let guard = ClientSocket::new(lent, kept, !is_h2, progress.clone());
    if is_h2 {
        progress.set_http2();
    }
    let session = GatewaySession::new(Arc::clone(worker), peer, progress.clone(), guard.switch());
    let session = Arc::new(session);
    let answering = Arc::clone(&session);
    let service = service_fn(move |request| {
        // Not when the answer is first polled: with HTTP/2 that is later, in a task of its own.
        let (session, busy) = (Arc::clone(&answering), answering.begin());
        async move { Ok::<_, Infallible>(GatewaySession::answer(session, request, busy).await) }
    });
    let io = TokioIo::new(guard);
    let due = if is_h2 {
        let connection = pin!(h2(config).serve_connection(io, service));
        drive(connection, http2::Connection::graceful_shutdown, told, &mut deadline, config).await
    } else {
        let connection = pin!(h1(config).serve_connection(io, service).with_upgrades());
        let goodbye = http1::UpgradeableConnection::graceful_shutdown;
        drive(connection, goodbye, told, &mut deadline, config).await
    };
    match due {
        Some(GatewayConnectionAction::Rest) => return Some((lender.take()?, deadline.rest())),
        Some(GatewayConnectionAction::Leave) => {
            close_idle_http2(lender.take()?, progress.last_stream()).await
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

/// Sees a connection to its end; `goodbye` tells it to finish what it has begun. Returns why it has to
/// end, unless it ended by itself.
async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    goodbye: impl Fn(Pin<&mut C>),
    mut told: Pin<&mut impl Future<Output = ()>>,
    deadline: &mut GatewayConnectionTimer,
    config: &ListenerConfig,
) -> Option<GatewayConnectionAction> {
    let mut is_open = true;
    // By hand and not by `select!`: the deadline must look after the connection has moved.
    poll_fn(|cx| {
        loop {
            // An error is a client that broke off or broke the protocol; hyper has answered it.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            // Not before: hyper would end at once, and what the client has asked is still unread.
            if is_open && told.as_mut().poll(cx).is_ready() {
                is_open = false;
                goodbye(connection.as_mut());
                continue;
            }
            match ready!(deadline.poll(config, cx)) {
                GatewayConnectionAction::Drain => goodbye(connection.as_mut()),
                due => return Poll::Ready(Some(due)),
            }
        }
    })
    .await
}

/// The first bytes, and whether they begin an HTTP/2 connection. `None` when there are too few.
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
        // See `progress`, which tells a slow head from an idle connection.
        .header_read_timeout(None)
        .max_header_size(config.max_head)
        // What one connection can make us hold. hyper refuses less than 8 KiB.
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
        // See `buffers`, which has this much for the bodies of a connection.
        .initial_connection_window_size(UPLOAD_WINDOW)
        .max_send_buf_size(BUFFER)
        // A client that is gone without a word is noticed.
        .keep_alive_interval(config.idle_timeout)
        .keep_alive_timeout(config.header_timeout);
    builder
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const BUFFER: usize = 64 << 10;
const MAX_STREAMS: u32 = 200;
const WINDOW: u32 = 128 << 10;
