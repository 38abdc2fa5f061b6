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

use super::activity::{Activity, Deadline, Due};
use super::heard::Heard;
use super::others::Others;
use super::route;
use crate::lent::{Lent, lend};
use crate::rest::{Stirred, leave, leave_http2, rest};
use crate::room::{GRACE, Seat};
use crate::transport::half::Half;
use crate::{App, Config};

/// What the calls of a connection share.
struct Session<S> {
    app: Arc<App<S>>,
    config: Arc<Config>,
    others: Arc<Others>,
}

/// Answers calls until the client leaves, is silent for too long, or the server closes.
pub(super) async fn serve<S, IO>(
    mut stream: IO,
    app: Arc<App<S>>,
    config: Arc<Config>,
    others: Arc<Others>,
    mut seat: Seat,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = Instant::now();
    let (from, until) = (begun + GRACE, begun + config.header_timeout);
    // Nothing is held for a client that has not said anything.
    let Stirred::Heard(first) = rest(&mut stream, &mut seat, from, until).await else {
        return leave(stream).await;
    };
    let (half, session) = (Half::default(), Session { app, config, others });
    let (lent, lender) = lend(stream);
    let due = Box::pin(answer(lent, first, session, half.clone(), seat)).await;
    if due == Some(Due::Leave)
        && let Some(stream) = lender.take()
    {
        leave_http2(stream, half.last_stream()).await;
    }
}

/// Returns why the connection has to end, unless it ended by itself.
async fn answer<S, IO>(
    stream: Lent<IO>,
    first: Vec<u8>,
    session: Session<S>,
    half: Half,
    seat: Seat,
) -> Option<Due>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new(seat.work());
    let mut deadline = Deadline::new(activity.clone(), half.clone(), &session.config, seat);
    let builder = builder(&session.config);
    let io = TokioIo::new(Heard::new(stream, first, activity.clone(), half));
    let session = Arc::new(session);
    let service = service_fn(move |request| {
        let (session, call) = (Arc::clone(&session), activity.begin());
        async move {
            let Session { app, config, others } = &*session;
            Ok::<_, Infallible>(route::answer(app, config, others, request, call).await)
        }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let (mut closed, mut is_open) = (pin!(deadline.seat().told()), true);
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
                Poll::Ready(Due::Farewell) => connection.as_mut().graceful_shutdown(),
                Poll::Ready(due) => return Poll::Ready(Some(due)),
            }
        }
    })
    .await
}

fn builder(config: &Config) -> http2::Builder<TokioExecutor> {
    let bytes = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        // A message is read whole before it is looked at; there is no need for room for more than
        // one.
        .initial_stream_window_size(bytes(config.max_body.saturating_add(PREFIX)))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(config.max_streams)
        .max_header_list_size(bytes(config.max_head))
        .max_send_buf_size(SEND_BUFFER)
        // Streams that are opened and reset at once: after this many the connection is closed.
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
const MAX_RESETS: usize = 20;
const MAX_ERRORS: usize = 256;
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
