//! A RESP client's stream: its input and output buffers, and their timeouts.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::{coop::unconstrained, yield_now};
use tokio::time::{Instant, timeout};

use super::reply::{RespProtocol, RespReplies};
use crate::net::accept::ClosingSignal;
use crate::net::seats::{QUIET, Seat, SeatUse};
use crate::{ListenerConfig, StallTimer};

/// Bytes that a client has sent and that are not answered yet.
#[derive(Debug)]
pub(super) struct RespInputBuffer {
    bytes: BytesMut,
    /// How much to read at a time: more for clients that send a lot.
    read_size: usize,
}

impl RespInputBuffer {
    /// A buffer with bytes that have already arrived.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), read_size: LEAST_READ }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes bytes that were answered.
    pub(super) fn take(&mut self, length: usize) {
        self.bytes.advance(length.min(self.bytes.len()));
    }

    /// The buffer for the next read.
    fn make_room(&mut self) -> &mut BytesMut {
        // First, because this reclaims the space of answered bytes: only then is the capacity known.
        self.bytes.reserve(self.read_size);
        if self.bytes.is_empty() && self.bytes.capacity() > self.read_size * 4 {
            self.bytes = BytesMut::with_capacity(self.read_size);
        }
        &mut self.bytes
    }

    fn adapt_size(&mut self, length: usize) {
        if length >= self.read_size {
            self.read_size = (self.read_size * 2).min(MOST_READ);
        } else if length < self.read_size / 4 {
            self.read_size = (self.read_size / 2).max(LEAST_READ);
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.make_room().extend_from_slice(bytes);
        self.adapt_size(bytes.len());
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The outcome of waiting for more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespReadOutcome {
    /// Bytes have arrived.
    Bytes,
    /// Everything is answered, and the client has been silent for a while.
    Pause,
    /// The client has left, or took too long.
    Gone,
    /// The server closes, and has answered everything that has arrived.
    ServerCloses,
}

/// A client's stream while it is active, with its pending replies and its timer.
pub(super) struct RespStream<IO> {
    io: IO,
    replies: RespReplies,
    /// How long the client can be silent before the connection pauses.
    pause: Duration,
    command_timeout: Duration,
    write_timeout: Duration,
    /// When the current wait for the client began.
    since: Instant,
    timer: StallTimer,
    seat: Seat,
    work: SeatUse,
    closing: ClosingSignal,
    /// Wakes the task when the server closes.
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The waker that `closed` was last polled with.
    waker: Option<Waker>,
    is_closing: bool,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> RespStream<IO> {
    pub(super) fn new(io: IO, config: &ListenerConfig, seat: Seat, protocol: RespProtocol) -> Self {
        let pause = config.idle_timeout.min(QUIET);
        let (mut closed, is_closing) = (seat.closing(), seat.must_close());
        let mut replies = RespReplies::default();
        replies.set_protocol(protocol);
        Self {
            io,
            replies,
            pause,
            command_timeout: config.header_timeout.min(LONGEST),
            write_timeout: config.body_timeout,
            since: Instant::now(),
            timer: StallTimer::default(),
            closing: seat.closing(),
            work: seat.work(),
            seat,
            // Unconstrained: a task that has used up its budget would get `Pending` here without being
            // registered for the wake-up.
            closed: Box::pin(unconstrained(async move {
                drop(closed.wait_for(|closing| *closing).await);
            })),
            waker: None,
            is_closing,
        }
    }

    /// What remains while the client is silent, and since when it has been silent.
    pub(super) fn into_rest(self) -> (IO, Seat, RespProtocol, Instant) {
        (self.io, self.seat, self.replies.protocol(), self.since)
    }

    /// The replies that wait to be written.
    pub(super) const fn replies(&mut self) -> &mut RespReplies {
        &mut self.replies
    }

    /// Records that complete commands were answered.
    pub(super) fn mark_served(&self) {
        self.work.mark_served();
    }

    /// Whether the server closes.
    pub(super) const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Waits for more bytes. A client that has begun a command gets less time than a silent one. With
    /// `anew`, the time starts now, rather than continuing from the previous wait.
    pub(super) async fn read_more(
        &mut self,
        input: &mut RespInputBuffer,
        anew: bool,
    ) -> RespReadOutcome {
        let is_idle = input.is_empty();
        if anew {
            self.since = Instant::now();
        }
        let due = self.since + if is_idle { self.pause } else { self.command_timeout };
        let Self { io, timer, closing, closed, waker, is_closing, .. } = self;
        let mut read = pin!(io.read_buf(input.make_room()));
        let mut is_pause = false;
        let received = poll_fn(|cx| {
            // First, because a client that never pauses must notice the close too.
            *is_closing |= closing.has_changed().unwrap_or(true);
            if let Poll::Ready(read) = read.as_mut().poll(cx) {
                return Poll::Ready(Some(read.unwrap_or(0)));
            }
            // Registering once is enough, as long as the same task waits.
            if !*is_closing && !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *is_closing = closed.as_mut().poll(cx).is_ready();
                *waker = Some(cx.waker().clone());
            }
            if *is_closing && is_idle {
                return Poll::Ready(None);
            }
            ready!(timer.poll_until(due, cx));
            is_pause = is_idle;
            Poll::Ready(Some(0))
        })
        .await;
        let Some(received) = received else {
            // Answer what has arrived by now: the runtime may not have noticed it yet.
            yield_now().await;
            return match poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
                Poll::Ready(Ok(1..)) => RespReadOutcome::Bytes,
                Poll::Ready(_) => RespReadOutcome::Gone,
                Poll::Pending => RespReadOutcome::ServerCloses,
            };
        };
        if is_pause {
            return RespReadOutcome::Pause;
        }
        input.adapt_size(received);
        if received > 0 { RespReadOutcome::Bytes } else { RespReadOutcome::Gone }
    }

    /// Whether so many replies are pending that they should be written now.
    pub(super) fn is_full(&self) -> bool {
        self.replies.bytes().len() >= MAX_PENDING_REPLIES
    }

    /// Writes all replies together. Returns whether that succeeded: if not, part of a reply may have been
    /// sent, so nothing may follow it, and the connection must end.
    pub(super) async fn flush(&mut self) -> bool {
        if self.replies.bytes().is_empty() {
            return true;
        }
        let (io, bytes) = (&mut self.io, self.replies.bytes());
        let mut write = pin!(async {
            io.write_all(bytes).await?;
            // TLS buffers what does not fit into the socket, and sends it only when it is flushed.
            io.flush().await
        });
        // Usually the socket has room for the replies, so try once before starting a timeout.
        let written = match poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await {
            Poll::Ready(written) => Ok(written),
            Poll::Pending => timeout(self.write_timeout, write).await,
        };
        self.replies.clear();
        matches!(written, Ok(Ok(())))
    }

    /// Closes the stream so that the client can still read all replies.
    pub(super) async fn close_gracefully(self) {
        close_gracefully(self.io, self.write_timeout).await;
    }
}

/// Closes a stream so that the client can still read all replies. Closing it with unread bytes would
/// reset the connection and discard replies that the client has not read yet. So whatever still arrives is
/// read and discarded, until the client leaves or is silent, or `within` has passed.
pub(super) async fn close_gracefully(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    within: Duration,
) {
    let closing = async {
        io.shutdown().await?;
        // A small buffer: when the server stops, all of its clients can be here at the same time.
        let mut discarded = BytesMut::with_capacity(LEAST_READ);
        while let Ok(read) = timeout(DISCARD_TIMEOUT, io.read_buf(&mut discarded)).await {
            if read? == 0 {
                break;
            }
            discarded.clear();
        }
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(within, closing).await;
}

const LEAST_READ: usize = 4 << 10;
const MOST_READ: usize = 64 << 10;
/// Replies are written once they have this many bytes.
pub(super) const MAX_PENDING_REPLIES: usize = 64 << 10;
/// A client that has been silent for this long is not expected to send anything more.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest timeout: an instant further in the future may not be representable.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_much_is_given_room_and_gives_it_back() {
        let mut input = RespInputBuffer::of(b"");
        for _ in 0..8 {
            input.put(&[b'x'; MOST_READ]);
            input.take(MOST_READ);
        }
        assert_eq!(input.read_size, MOST_READ);
        for _ in 0..20 {
            input.put(b"PING\r\n");
            input.take(6);
        }
        input.put(b"PING\r\n");
        assert_eq!(input.read_size, LEAST_READ);
        assert!(input.capacity() <= 4 * LEAST_READ, "{}", input.capacity());
    }
}
