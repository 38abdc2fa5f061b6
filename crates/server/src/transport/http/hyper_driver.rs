//! hyper's part of an HTTP connection: how it is configured, and how it is driven to its end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::timer::{HttpConnectionTimer, HttpTimerAction};
use super::wire::HttpWire;
use crate::{ClientStream, ListenerConfig};

/// How hyper's part of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpConnectionEnd {
    /// Everything was answered and sent.
    Orderly,
    /// The client disconnected, or took too long.
    Broken,
    /// HTTP/1: everything was answered, and the client is idle.
    Rest,
    /// HTTP/2: everything was answered, and another client needs the seat.
    YieldSeat,
}

/// Drives a connection to its end. `announce_close` sends the client a notice that the connection closes.
pub(super) async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    wire: &HttpWire<ClientStream>,
    timer: &mut HttpConnectionTimer,
    mut announce_close: Option<fn(Pin<&mut C>)>,
    count_unreadable: &(dyn Fn(&hyper::Error) + Sync),
) -> HttpConnectionEnd {
    let mut is_done = false;
    // By hand rather than with `select!`: the order matters.
    poll_fn(|cx| {
        // First, so that responses announce the close.
        timer.should_close(cx);
        loop {
            // An error means that the client disconnected or violated the protocol. hyper has already
            // answered it.
            if !is_done && let Poll::Ready(outcome) = connection.as_mut().poll(cx) {
                is_done = true;
                let _ = outcome.inspect_err(count_unreadable);
            }
            match wire.poll_send(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(HttpConnectionEnd::Broken),
                Poll::Ready(Ok(())) if is_done => return Poll::Ready(HttpConnectionEnd::Orderly),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            let action = timer.poll_action(cx);
            // Not before polling the connection: hyper would end immediately and leave requests unread.
            if !is_done
                && timer.is_closing()
                && let Some(announce_close) = announce_close.take()
            {
                announce_close(connection.as_mut());
                continue;
            }
            match ready!(action) {
                HttpTimerAction::Rest if !is_done && wire.is_between_requests() => {
                    return Poll::Ready(HttpConnectionEnd::Rest);
                }
                HttpTimerAction::Rest => continue,
                HttpTimerAction::YieldSeat if !is_done => {
                    return Poll::Ready(HttpConnectionEnd::YieldSeat);
                }
                HttpTimerAction::YieldSeat | HttpTimerAction::Close => {}
            }
            match announce_close.take().filter(|_| !is_done) {
                None => return Poll::Ready(HttpConnectionEnd::Broken),
                Some(announce_close) => announce_close(connection.as_mut()),
            }
            timer.close();
        }
    })
    .await
}

pub(super) fn http1(config: &ListenerConfig) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Not `pipeline_flush`: it withholds an answer while any byte of another request is unread,
    // never sends hyper's own 400 and 431, and lifts the bound on what waits to be written.
    builder
        // A client that has finished sending still waits for its responses.
        .half_close(true)
        // `HttpConnectionTimer` does this instead: it distinguishes a slow head from an idle connection.
        .header_read_timeout(None)
        .max_header_size(config.max_head)
        // Bounds the memory of a connection. hyper panics on less than 8 KiB.
        .max_buf_size(config.max_head.saturating_add(config.max_body).max(8 << 10));
    builder
}

pub(super) fn http2(config: &ListenerConfig) -> http2::Builder<TokioExecutor> {
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX >> 1);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.max_streams)
        .max_header_list_size(size(config.max_head))
        // Bounds requests that are cancelled as fast as they are sent, or that violate the protocol.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_ERRORS)
        // One body fits into the window; anything beyond that is read as it is consumed.
        .initial_stream_window_size(size(config.max_body).max(MIN_WINDOW))
        .initial_connection_window_size(size(config.max_body).max(CONNECTION_WINDOW))
        .max_send_buf_size(SEND_BUFFER)
        // Detects clients that are gone without closing the connection.
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(config.header_timeout);
    builder
}

const MAX_RESETS: usize = 20;
const MAX_ERRORS: usize = 100;
/// The protocol's initial window.
const MIN_WINDOW: u32 = 65_535;
const CONNECTION_WINDOW: u32 = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
const PING_EVERY: Duration = Duration::from_secs(20);
