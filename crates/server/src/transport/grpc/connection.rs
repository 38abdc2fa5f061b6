//! Serves one gRPC connection, from its preface to its last stream.

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
use super::message::PREFIX;
use super::socket::GrpcSocket;
use super::{GrpcListenerContext, route};
use crate::ListenerConfig;
use crate::idle::{IdleEnd, close_idle, close_idle_http2, wait_idle};
use crate::lent_stream::{LentStream, lend};
use crate::seats::{GRACE, Seat};
use crate::transport::partial_head::PartialHead;

/// Answers calls until the client leaves, is silent for too long, or the server closes.
pub(super) async fn serve<S, IO>(
    mut stream: IO,
    context: Arc<GrpcListenerContext<S>>,
    mut seat: Seat,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = Instant::now();
    let (from, until) = (begun + GRACE, begun + context.config.header_timeout);
    // Allocate nothing for a client that has not sent anything.
    let IdleEnd::Received(first) = wait_idle(&mut stream, &mut seat, from, until).await else {
        return close_idle(stream).await;
    };
    let partial_head = PartialHead::default();
    let (lent, lender) = lend(stream);
    let end = Box::pin(answer_calls(lent, first, context, partial_head.clone(), seat)).await;
    if end == Some(GrpcTimerAction::YieldSeat)
        && let Some(stream) = lender.take()
    {
        close_idle_http2(stream, partial_head.last_stream()).await;
    }
}

/// Answers calls until the connection ends. Returns the timer's action if the timer has ended it.
async fn answer_calls<S, IO>(
    stream: LentStream<IO>,
    first: Vec<u8>,
    context: Arc<GrpcListenerContext<S>>,
    partial_head: PartialHead,
    seat: Seat,
) -> Option<GrpcTimerAction>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = GrpcActivity::new(seat.work());
    let mut timer =
        GrpcIdleTimer::new(activity.clone(), partial_head.clone(), &context.config, seat);
    let builder = builder(&context.config);
    let io = TokioIo::new(GrpcSocket::new(stream, first, activity.clone(), partial_head));
    let service = service_fn(move |request| {
        let (context, call) = (Arc::clone(&context), activity.begin_call());
        async move { Ok::<_, Infallible>(route::answer(&context, request, call).await) }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let (mut closed, mut is_open) = (pin!(timer.seat().wait_must_close()), true);
    // By hand rather than with `select!`: the timer must be polled after the connection, so that it
    // sees the connection's progress.
    poll_fn(|cx| {
        loop {
            // An error means that the client disconnected or violated the protocol. hyper has already
            // reported it to the client.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            // Not before polling the connection: hyper would end immediately and leave requests unread.
            if is_open && closed.as_mut().poll(cx).is_ready() {
                is_open = false;
                connection.as_mut().graceful_shutdown();
                continue;
            }
            match timer.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(GrpcTimerAction::AnnounceClose) => {
                    connection.as_mut().graceful_shutdown();
                }
                Poll::Ready(action) => return Poll::Ready(Some(action)),
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
        // Room for one message of the usual size: it is read as a whole before it is decoded.
        .initial_stream_window_size(bytes(config.max_body.saturating_add(PREFIX)))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(config.max_streams)
        // Envoy forwards its client's trace headers, such as `tracestate`. Accept as much as Envoy does:
        // otherwise the call would fail, and Envoy would let the request pass.
        .max_header_list_size(bytes(config.max_head.max(MAX_HEAD)))
        .max_send_buf_size(SEND_BUFFER)
        // After this many streams that were opened and immediately reset, the connection is closed.
        // Envoy resets a call when its own client hangs up. If a few resets could end the connection,
        // all other calls on it would fail.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_ERRORS)
        // Detects clients that are gone without closing the connection.
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        // Envoy has no use for the date.
        .auto_date_header(false);
    builder
}
const CONNECTION_WINDOW: u32 = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
/// Twice what Envoy accepts from a client by default.
const MAX_HEAD: usize = 128 << 10;
const MAX_RESETS: usize = 1_000;
const MAX_ERRORS: usize = 256;
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
