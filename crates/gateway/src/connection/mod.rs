//! One client's connection, from its first byte to its last.

mod guard;
mod progress;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tidegate::Store;
use tidegate_server::Config;
use tidegate_server::accept::Closing;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use crate::session::Session;
use crate::worker::Worker;
use guard::Guard;
use progress::Deadline;

pub(crate) use guard::Switch;
pub(crate) use progress::{Busy, Progress};

/// Who is at the other end of a connection, as far as the connection tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    /// No address on a unix socket.
    pub(crate) ip: Option<IpAddr>,
    /// Whether it speaks TLS with us.
    pub(crate) is_secure: bool,
}

/// Answers requests until the client leaves, takes too long, or the gateway closes.
pub(crate) async fn serve<S, IO>(
    mut io: IO,
    peer: Peer,
    worker: Arc<Worker<S>>,
    mut closing: Closing,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let progress = Progress::new();
    let mut deadline = Deadline::new(progress.clone());
    let (config, mut silence) = (Arc::clone(&worker.config), closing.clone());
    let begun = tokio::select! {
        begun = beginning(&mut io) => begun,
        () = poll_fn(|cx| deadline.poll(&config, cx)) => None,
        _ = silence.wait_for(|closing| *closing) => None,
    };
    let Some((kept, is_h2)) = begun else { return };
    let guard = Guard::new(io, kept, !is_h2, progress.clone());
    if is_h2 {
        progress.head_begins(false);
    }
    let session = Arc::new(Session::new(worker, peer, progress, guard.switch()));
    let answering = Arc::clone(&session);
    let service = service_fn(move |request| {
        let session = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let io = TokioIo::new(guard);
    let told = closing.wait_for(|closing| *closing);
    if is_h2 {
        let connection = pin!(h2(&config).serve_connection(io, service));
        drive(connection, http2::Connection::graceful_shutdown, told, deadline, &config).await;
    } else {
        let connection = pin!(h1(&config).serve_connection(io, service).with_upgrades());
        let goodbye = http1::UpgradeableConnection::graceful_shutdown;
        drive(connection, goodbye, told, deadline, &config).await;
    }
    if let Some(tunnel) = session.take_tunnel() {
        tunnel.run().await;
    }
}

/// Sees a connection to its end; `goodbye` tells it to finish what it has begun.
async fn drive<C: Future, T>(
    mut connection: Pin<&mut C>,
    goodbye: impl Fn(Pin<&mut C>),
    told: impl Future<Output = T>,
    mut deadline: Deadline,
    config: &Config,
) {
    let (mut told, mut is_open) = (pin!(told), true);
    // By hand and not by `select!`: the deadline must look after the connection has moved.
    poll_fn(|cx| {
        if is_open && told.as_mut().poll(cx).is_ready() {
            is_open = false;
            goodbye(connection.as_mut());
        }
        match connection.as_mut().poll(cx) {
            // An error is a client that broke off or broke the protocol; hyper has answered it.
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => deadline.poll(config, cx),
        }
    })
    .await;
}

/// The first bytes, and whether they begin an HTTP/2 connection. `None` when there are none.
async fn beginning(io: &mut (impl AsyncRead + Unpin)) -> Option<(Bytes, bool)> {
    let mut read = BytesMut::with_capacity(FIRST);
    loop {
        if io.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
        let length = read.len().min(PREFACE.len());
        if read.get(..length) != PREFACE.get(..length) {
            return Some((read.freeze(), false));
        }
        if length == PREFACE.len() {
            return Some((read.freeze(), true));
        }
    }
}

fn h1(config: &Config) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // See `progress`, which tells a slow head from an idle connection.
        .header_read_timeout(None)
        .max_header_size(config.max_head)
        // What one connection can make us hold. hyper refuses less than 8 KiB.
        .max_buf_size(config.max_head.saturating_add(BUFFER).max(8 << 10));
    builder
}

fn h2(config: &Config) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(config.max_head).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 4)
        .max_send_buf_size(BUFFER)
        // A client that is gone without a word is noticed.
        .keep_alive_interval(config.idle_timeout)
        .keep_alive_timeout(config.header_timeout);
    builder
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FIRST: usize = 8 << 10;
const BUFFER: usize = 256 << 10;
const MAX_STREAMS: u32 = 200;
const WINDOW: u32 = 256 << 10;
