//! One connection, from its preface to its last stream.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tidegate::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::activity::{GrpcActivity, GrpcIdleTimer, GrpcTimerAction};
use super::socket::GrpcSocket;
use super::{GrpcListenerContext, route};
use crate::ListenerConfig;
use crate::idle::{IdleEnd, close_idle, close_idle_http2, wait_idle};
use crate::lent_stream::{LentStream, lend};
use crate::seats::{GRACE, Seat};
use crate::transport::partial_head::PartialHead;

/// Answers calls until the client leaves, is silent for too long, or the server closes.
pub(super) async fn serve<S, IO>(mut stream: IO, door: Arc<GrpcListenerContext<S>>, mut seat: Seat)
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = Instant::now();
    let (from, until) = (begun + GRACE, begun + door.config.header_timeout);
    // Nothing is held for a client that has not said anything.
    let IdleEnd::Received(first) = wait_idle(&mut stream, &mut seat, from, until).await else {
        return close_idle(stream).await;
    };
    let half = PartialHead::default();
    let (lent, lender) = lend(stream);
    let due = Box::pin(answer_calls(lent, first, door, half.clone(), seat)).await;
    if due == Some(GrpcTimerAction::YieldSeat)
        && let Some(stream) = lender.take()
    {
        close_idle_http2(stream, half.last_stream()).await;
    }
}

/// Returns why the connection has to end, unless it ended by itself.
async fn answer_calls<S, IO>(
    stream: LentStream<IO>,
    first: Vec<u8>,
    door: Arc<GrpcListenerContext<S>>,
    half: PartialHead,
    seat: Seat,
) -> Option<GrpcTimerAction>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = GrpcActivity::new(seat.work());
    let mut deadline = GrpcIdleTimer::new(activity.clone(), half.clone(), &door.config, seat);
    let builder = builder(&door.config);
    let io = TokioIo::new(GrpcSocket::new(stream, first, activity.clone(), half));
    let service = service_fn(move |request| {
        let (door, call) = (Arc::clone(&door), activity.begin_call());
        async move { Ok::<_, Infallible>(route::answer(&door, request, call).await) }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let (mut closed, mut is_open) = (pin!(deadline.seat().wait_must_close()), true);
    // By hand rather than with `select!`: the deadline must be polled after the connection has
    // moved.
    poll_fn(|cx| {
        loop {
            // An error is a client that broke off or broke the protocol; hyper has told it.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            // Not before: hyper would end at once, and what the client has asked is still unread.
            if is_open && closed.as_mut().poll(cx).is_ready() {
                is_open = false;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            match deadline.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(GrpcTimerAction::AnnounceClose) => {
                    connection.as_mut().graceful_shutdown()
                }
                Poll::Ready(due) => return Poll::Ready(Some(due)),
            }
        }
    })
    .await
}

fn builder(config: &ListenerConfig) -> http2::Builder<TokioExecutor> {
    let bytes = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        // Room for one message of the usual size, which is read as a whole before it is looked at.
        .initial_stream_window_size(bytes(config.max_body.saturating_add(PREFIX)))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(config.max_streams)
        // Envoy passes on what its client says about traces, such as `tracestate`: as much of it as
        // Envoy takes, or the call fails and the client passes.
        .max_header_list_size(bytes(config.max_head.max(MAX_HEAD)))
        .max_send_buf_size(SEND_BUFFER)
        // Streams that are opened and reset at once: after this many the connection is closed. Envoy
        // resets a call when its own client hangs up. If a few of them could end the connection, all
        // calls on it would fail.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_ERRORS)
        // Detects clients that are gone without a word.
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        // Nobody asks a limiter for the date.
        .auto_date_header(false);
    builder
}

/// Before each message.
const PREFIX: usize = 5;
const CONNECTION_WINDOW: u32 = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
/// Twice what Envoy takes from a client by default.
const MAX_HEAD: usize = 128 << 10;
const MAX_RESETS: usize = 1_000;
const MAX_ERRORS: usize = 256;
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
