//! Drives hyper's part of a connection to its end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::deadline::{HttpConnectionTimer, HttpTimerAction};

/// How hyper's part of a connection ends.
#[derive(Debug)]
pub(super) enum HttpConnectionEnd {
    /// hyper has finished. An error means that the client disconnected or violated the protocol, which
    /// hyper has already answered.
    Done(hyper::Result<()>),
    /// The client took too long.
    Closed,
    /// HTTP/1: everything was answered, and the client is idle.
    Rest,
    /// HTTP/2: everything was answered, and another client needs the seat.
    YieldSeat,
}

/// Drives a connection to its end. `announce_close` sends the client a notice that the connection closes.
pub(super) async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    timer: &mut HttpConnectionTimer,
    mut announce_close: Option<fn(Pin<&mut C>)>,
) -> HttpConnectionEnd {
    // By hand rather than with `select!`: the order matters.
    poll_fn(|cx| {
        // First, so that responses announce the close.
        timer.should_close(cx);
        loop {
            if let Poll::Ready(outcome) = connection.as_mut().poll(cx) {
                return Poll::Ready(HttpConnectionEnd::Done(outcome));
            }
            let action = timer.poll_action(cx);
            // Not before polling the connection: hyper would end immediately and leave requests unread.
            if timer.is_closing()
                && let Some(announce_close) = announce_close.take()
            {
                announce_close(connection.as_mut());
                continue;
            }
            return action.map(|action| match action {
                HttpTimerAction::Rest => HttpConnectionEnd::Rest,
                HttpTimerAction::YieldSeat => HttpConnectionEnd::YieldSeat,
                HttpTimerAction::Close => HttpConnectionEnd::Closed,
            });
        }
    })
    .await
}
