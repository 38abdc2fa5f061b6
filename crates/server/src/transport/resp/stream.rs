//! A connection's two directions, and how long each may take.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::{coop::unconstrained, yield_now};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::reply::{RespProtocol, RespReplies};
use crate::ListenerConfig;
use crate::accept::ClosingSignal;
use crate::seats::{QUIET, Seat, SeatUse};

/// What a client has sent that has not been answered yet.
#[derive(Debug)]
pub(super) struct RespInputBuffer {
    bytes: BytesMut,
    /// How much to read at once: more for clients that send a lot.
    room: usize,
}

impl RespInputBuffer {
    /// With what has arrived already.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), room: LEAST_READ }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// This many bytes were answered.
    pub(super) fn take(&mut self, length: usize) {
        self.bytes.advance(length.min(self.bytes.len()));
    }

    /// What the next bytes are read into.
    fn make_room(&mut self) -> &mut BytesMut {
        // Reclaims what answered bytes have freed, so only then is it known how much there is.
        self.bytes.reserve(self.room);
        if self.bytes.is_empty() && self.bytes.capacity() > self.room * 4 {
            self.bytes = BytesMut::with_capacity(self.room);
        }
        &mut self.bytes
    }

    fn adapt_size(&mut self, length: usize) {
        if length >= self.room {
            self.room = (self.room * 2).min(MOST_READ);
        } else if length < self.room / 4 {
            self.room = (self.room / 2).max(LEAST_READ);
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

/// The result of listening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespReadOutcome {
    /// Bytes.
    Bytes,
    /// Everything is answered, and the client is silent for the moment.
    Pause,
    /// The client is gone, or took too long.
    Gone,
    /// The server closes, and has answered everything that has come.
    ServerCloses,
}

/// A client at the other end: bytes in, replies out.
pub(super) struct RespStream<IO> {
    io: IO,
    replies: RespReplies,
    /// How long silence is a pause and no rest.
    pause: Duration,
    command_timeout: Duration,
    write_timeout: Duration,
    /// Since when the client has been waited for.
    since: Instant,
    /// Never later than it must be; if it rings too early it is set again. So it costs nothing as
    /// long as a client keeps talking.
    timer: Pin<Box<Sleep>>,
    seat: Seat,
    work: SeatUse,
    closing: ClosingSignal,
    /// Wakes whoever waits when the server closes.
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Who will be woken.
    waiting: Option<Waker>,
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
            timer: Box::pin(sleep(pause)),
            closing: seat.closing(),
            work: seat.work(),
            seat,
            // Or a task that has used up its turn would be told to come back, and not be woken.
            closed: Box::pin(unconstrained(async move {
                drop(closed.wait_for(|closing| *closing).await);
            })),
            waiting: None,
            is_closing,
        }
    }

    /// What is left while the client is silent, and since when it has been.
    pub(super) fn into_rest(self) -> (IO, Seat, RespProtocol, Instant) {
        (self.io, self.seat, self.replies.protocol(), self.since)
    }

    /// Where answers go until they are written.
    pub(super) const fn replies(&mut self) -> &mut RespReplies {
        &mut self.replies
    }

    /// Whole commands have come.
    pub(super) fn mark_served(&self) {
        self.work.mark_served();
    }

    /// Whether the server was told to stop.
    pub(super) const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Waits for more bytes. A client that has begun a command gets less time than one that is
    /// silent; `anew` says that the time starts now, rather than continuing from the previous wait.
    pub(super) async fn read_more(
        &mut self,
        inbox: &mut RespInputBuffer,
        anew: bool,
    ) -> RespReadOutcome {
        let is_idle = inbox.is_empty();
        if anew {
            self.since = Instant::now();
        }
        let due = self.since + if is_idle { self.pause } else { self.command_timeout };
        if due < self.timer.deadline() {
            self.timer.as_mut().reset(due);
        }
        let Self { io, timer: alarm, closing, closed, waiting, is_closing, .. } = self;
        let mut read = pin!(io.read_buf(inbox.make_room()));
        let mut is_pause = false;
        let heard = poll_fn(|cx| {
            // First, or a client that never pauses would never be told.
            *is_closing |= closing.has_changed().unwrap_or(true);
            if let Poll::Ready(read) = read.as_mut().poll(cx) {
                return Poll::Ready(Some(read.unwrap_or(0)));
            }
            // Once is enough, as long as it is the same task that waits.
            if !*is_closing && !waiting.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
                *is_closing = closed.as_mut().poll(cx).is_ready();
                *waiting = Some(cx.waker().clone());
            }
            if *is_closing && is_idle {
                return Poll::Ready(None);
            }
            while alarm.as_mut().poll(cx).is_ready() {
                if Instant::now() >= due {
                    is_pause = is_idle;
                    return Poll::Ready(Some(0));
                }
                alarm.as_mut().reset(due);
            }
            Poll::Pending
        })
        .await;
        let Some(heard) = heard else {
            // What has arrived by now is answered: the runtime may not have seen it yet.
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
        inbox.adapt_size(heard);
        if heard > 0 { RespReadOutcome::Bytes } else { RespReadOutcome::Gone }
    }

    /// Whether enough answers are waiting to be written together.
    pub(super) fn is_full(&self) -> bool {
        self.replies.bytes().len() >= MAX_PENDING_REPLIES
    }

    /// Writes all answers at once. Returns whether that worked: if not, part of an answer may have
    /// left, so nothing may follow it, and the client is dropped.
    pub(super) async fn flush(&mut self) -> bool {
        if self.replies.bytes().is_empty() {
            return true;
        }
        let (io, bytes) = (&mut self.io, self.replies.bytes());
        let mut write = pin!(async {
            io.write_all(bytes).await?;
            // TLS keeps what the socket has no room for, and sends it only when it is told to.
            io.flush().await
        });
        // Most clients have room for it, and then there is no need to look at the clock.
        let written = match poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await {
            Poll::Ready(written) => Ok(written),
            Poll::Pending => timeout(self.write_timeout, write).await,
        };
        self.replies.clear();
        matches!(written, Ok(Ok(())))
    }

    /// Says that this was all.
    pub(super) async fn close_gracefully(self) {
        close_gracefully(self.io, self.write_timeout).await;
    }
}

/// Says that this was all. Closing with bytes unread would reset the connection, and take away answers
/// that the client has not read yet; so whatever still arrives is read and discarded, until the client
/// is gone or silent, for as long as it might have taken to read an answer.
pub(super) async fn close_gracefully(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    within: Duration,
) {
    let farewell = async {
        io.shutdown().await?;
        // Little: when the server stops, all of its clients may be here.
        let mut forgotten = BytesMut::with_capacity(LEAST_READ);
        while let Ok(read) = timeout(DISCARD_TIMEOUT, io.read_buf(&mut forgotten)).await {
            if read? == 0 {
                break;
            }
            forgotten.clear();
        }
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(within, farewell).await;
}

const LEAST_READ: usize = 4 << 10;
const MOST_READ: usize = 64 << 10;
pub(super) const MAX_PENDING_REPLIES: usize = 64 << 10;
/// A client that was silent for so long will not say anything more.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Beyond this an instant may not be representable.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_much_is_given_room_and_gives_it_back() {
        let mut inbox = RespInputBuffer::of(b"");
        for _ in 0..8 {
            inbox.put(&[b'x'; MOST_READ]);
            inbox.take(MOST_READ);
        }
        assert_eq!(inbox.room, MOST_READ);
        for _ in 0..20 {
            inbox.put(b"PING\r\n");
            inbox.take(6);
        }
        inbox.put(b"PING\r\n");
        assert_eq!(inbox.room, LEAST_READ);
        assert!(inbox.capacity() <= 4 * LEAST_READ, "{}", inbox.capacity());
    }
}
