//! Idle connections: waiting for the next request without holding a buffer, and closing gracefully.

use std::future::{Future, poll_fn};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

use crate::net::framing::goaway;
use crate::net::seats::{IdleSeat, Seat};

/// How an idle period ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IdleEnd {
    /// The client sent these bytes.
    Received(Vec<u8>),
    /// The server is shutting down.
    ServerClosing,
    /// The client closed, was silent for too long, or must give up its seat.
    Closed,
}

/// Waits until the client sends something, at most `until`. The seat can be taken away after `from`.
pub(crate) async fn wait_idle<IO>(
    io: &mut IO,
    seat: &mut Seat,
    from: Instant,
    until: Instant,
) -> IdleEnd
where
    IO: AsyncRead + Unpin,
{
    // A connection is notified of the shutdown only once.
    let (mut closing, was_notified) = (pin!(seat.wait_must_close()), seat.is_notified());
    let mut silence = pin!(sleep_until(until));
    // Created late: most new connections have sent a request already, and are never idle.
    let mut idle = None;
    let end = poll_fn(|cx| {
        if let Poll::Ready(end) = poll_first_bytes(io, cx) {
            return Poll::Ready(Some(end));
        }
        let idle = idle.get_or_insert_with(|| seat.idle(from));
        if idle.poll_wanted(cx).is_ready() {
            return Poll::Ready(None);
        }
        if !was_notified && closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(IdleEnd::ServerClosing));
        }
        silence.as_mut().poll(cx).map(|()| Some(IdleEnd::Closed))
    })
    .await;
    if idle.is_some_and(IdleSeat::end) || end == Some(IdleEnd::ServerClosing) {
        seat.mark_notified();
    }
    match end {
        Some(end @ (IdleEnd::Received(_) | IdleEnd::Closed)) => end,
        // A request that has arrived by now is answered: the runtime may not have noticed it yet.
        closing => {
            yield_now().await;
            match poll_fn(|cx| Poll::Ready(poll_first_bytes(io, cx))).await {
                Poll::Ready(end) => end,
                Poll::Pending => closing.unwrap_or(IdleEnd::Closed),
            }
        }
    }
}

fn poll_first_bytes(io: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<IdleEnd> {
    // On the stack and not in the connection: an idle connection keeps no buffer.
    let mut chunk = [const { MaybeUninit::uninit() }; CHUNK];
    let mut chunk = ReadBuf::uninit(&mut chunk);
    Pin::new(io).poll_read(cx, &mut chunk).map(|read| match read {
        Ok(()) if !chunk.filled().is_empty() => IdleEnd::Received(chunk.filled().to_vec()),
        _ => IdleEnd::Closed,
    })
}

/// Shuts an idle connection down, so that the client sees the end of the stream and not an error.
pub(crate) async fn close_idle(mut io: impl AsyncWrite + Unpin) {
    let _ = timeout(LEAVE, io.shutdown()).await;
}

/// The same for HTTP/2: a GOAWAY frame says which requests were answered, so that the client can retry
/// the others elsewhere.
pub(crate) async fn close_idle_http2(mut io: impl AsyncWrite + Unpin, last_stream: u32) {
    let _ = timeout(LEAVE, io.write_all(&goaway(last_stream))).await;
    close_idle(io).await;
}

/// More than most requests have. The transport reads the rest of a longer one.
const CHUNK: usize = 4 << 10;
/// A shutdown can have to write (TLS, GOAWAY), and the client may not read.
const LEAVE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, duplex};
    use tokio::sync::watch;

    use super::*;
    use crate::net::ListenerConfig;
    use crate::net::seats::{QUIET, SeatOutcome, SeatPool};

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_bytes_with_the_client_with_time_and_with_the_server() {
        let (close, closing) = watch::channel(false);
        let mut seat = Seat::alone(closing);
        let (mut client, mut server) = duplex(64);
        let now = Instant::now();
        client.write_all(b"PING").await.unwrap();
        let end = wait_idle(&mut server, &mut seat, now, now + MINUTE).await;
        assert_eq!(end, IdleEnd::Received(b"PING".to_vec()));
        assert_eq!(wait_idle(&mut server, &mut seat, now, now + MINUTE).await, IdleEnd::Closed);
        assert_eq!(now.elapsed(), MINUTE);
        close.send_replace(true);
        let until = Instant::now() + MINUTE;
        assert_eq!(wait_idle(&mut server, &mut seat, now, until).await, IdleEnd::ServerClosing);
        assert!(seat.must_close());
        // The shutdown is reported once.
        assert_eq!(wait_idle(&mut server, &mut seat, now, until).await, IdleEnd::Closed);
        assert_eq!(Instant::now(), until);
        drop(client);
        let never = Instant::now() + MINUTE;
        assert_eq!(wait_idle(&mut server, &mut seat, now, never).await, IdleEnd::Closed);
        assert!(Instant::now() < never);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_in_the_way_leaves_at_once_unless_it_has_just_asked() {
        for asks in [false, true] {
            let (_open, closing) = watch::channel(false);
            let seats = Arc::new(SeatPool::new(&ListenerConfig {
                max_connections: 1,
                ..ListenerConfig::default()
            }));
            let SeatOutcome::Seated(guard) = seats.request_seat(None) else { panic!("a seat") };
            let mut seat = Seat::new(closing, guard);
            let (mut client, mut server) = duplex(64);
            let start = Instant::now();
            let idle = async {
                let end = wait_idle(&mut server, &mut seat, start, start + MINUTE).await;
                (end, seat.must_close(), drop(seat))
            };
            let newcomer = async {
                tokio::time::sleep(QUIET).await;
                if asks {
                    client.write_all(b"PING").await.unwrap();
                }
                let SeatOutcome::Queued(request) = seats.request_seat(None) else {
                    panic!("no seat")
                };
                request.seat().await.unwrap()
            };
            let ((end, must_close, ()), _seat) = tokio::join!(idle, newcomer);
            let expected = if asks { IdleEnd::Received(b"PING".to_vec()) } else { IdleEnd::Closed };
            assert_eq!((end, must_close), (expected, true));
            assert_eq!(start.elapsed(), QUIET);
            close_idle(server).await;
            assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }
}
