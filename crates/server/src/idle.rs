//! A connection on which nothing is under way: it has no buffer, and little else.

use std::future::{Future, poll_fn};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

use crate::framing::goaway;
use crate::seats::{IdleSeat, Seat};

/// How a rest ends.
#[derive(Debug, PartialEq, Eq)]
pub enum IdleEnd {
    /// With the first bytes of whatever comes next.
    Received(Vec<u8>),
    /// The server closes.
    ServerClosing,
    /// The client has left or was silent for too long, or somebody else needs its seat.
    Closed,
}

/// Rests until the client says something, at most `until`. The seat may be wanted `from` then on.
pub async fn wait_idle<IO>(io: &mut IO, seat: &mut Seat, from: Instant, until: Instant) -> IdleEnd
where
    IO: AsyncRead + Unpin,
{
    // Once.
    let (mut told, was_told) = (pin!(seat.wait_must_close()), seat.is_notified());
    let mut silence = pin!(sleep_until(until));
    // Most clients that have just come have asked already, and do not rest.
    let mut rest = None;
    let stirred = poll_fn(|cx| {
        if let Poll::Ready(heard) = poll_first_bytes(io, cx) {
            return Poll::Ready(Some(heard));
        }
        let rest = rest.get_or_insert_with(|| seat.idle(from));
        if rest.poll_wanted(cx).is_ready() {
            return Poll::Ready(None);
        }
        if !was_told && told.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(IdleEnd::ServerClosing));
        }
        silence.as_mut().poll(cx).map(|()| Some(IdleEnd::Closed))
    })
    .await;
    if rest.is_some_and(IdleSeat::end) || stirred == Some(IdleEnd::ServerClosing) {
        seat.mark_notified();
    }
    match stirred {
        Some(stirred @ (IdleEnd::Received(_) | IdleEnd::Closed)) => stirred,
        // What has arrived by now is answered: the runtime may not have seen it yet.
        asked => {
            yield_now().await;
            match poll_fn(|cx| Poll::Ready(poll_first_bytes(io, cx))).await {
                Poll::Ready(heard) => heard,
                Poll::Pending => asked.unwrap_or(IdleEnd::Closed),
            }
        }
    }
}

fn poll_first_bytes(io: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<IdleEnd> {
    // Here and not in the connection: nothing is kept while there is nothing to read.
    let mut chunk = [const { MaybeUninit::uninit() }; CHUNK];
    let mut chunk = ReadBuf::uninit(&mut chunk);
    Pin::new(io).poll_read(cx, &mut chunk).map(|read| match read {
        Ok(()) if !chunk.filled().is_empty() => IdleEnd::Received(chunk.filled().to_vec()),
        _ => IdleEnd::Closed,
    })
}

/// Ends a connection on which nothing is under way, so that the client sees an end and not an error.
pub async fn close_idle(mut io: impl AsyncWrite + Unpin) {
    let _ = timeout(LEAVE, io.shutdown()).await;
}

/// The same for HTTP/2: the client is told which requests were answered, and may make all others
/// elsewhere.
pub async fn close_idle_http2(mut io: impl AsyncWrite + Unpin, last_stream: u32) {
    let _ = timeout(LEAVE, io.write_all(&goaway(last_stream))).await;
    close_idle(io).await;
}

/// More than most requests have. The rest of a long one is read by whoever answers it.
const CHUNK: usize = 4 << 10;
/// Something may have to be written at the end, and the client may not read.
const LEAVE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, duplex};
    use tokio::sync::watch;

    use super::*;
    use crate::ListenerConfig;
    use crate::seats::{QUIET, SeatOutcome, SeatPool};

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_bytes_with_the_client_with_time_and_with_the_server() {
        let (close, closing) = watch::channel(false);
        let mut seat = Seat::alone(closing);
        let (mut client, mut server) = duplex(64);
        let now = Instant::now();
        client.write_all(b"PING").await.unwrap();
        let heard = wait_idle(&mut server, &mut seat, now, now + MINUTE).await;
        assert_eq!(heard, IdleEnd::Received(b"PING".to_vec()));
        assert_eq!(wait_idle(&mut server, &mut seat, now, now + MINUTE).await, IdleEnd::Closed);
        assert_eq!(now.elapsed(), MINUTE);
        close.send_replace(true);
        let until = Instant::now() + MINUTE;
        assert_eq!(wait_idle(&mut server, &mut seat, now, until).await, IdleEnd::ServerClosing);
        assert!(seat.must_close());
        // It is told once.
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
            let room = Arc::new(SeatPool::new(&ListenerConfig {
                max_connections: 1,
                ..ListenerConfig::default()
            }));
            let SeatOutcome::Seated(hold) = room.request_seat(None) else { panic!("a seat") };
            let mut seat = Seat::new(closing, hold);
            let (mut client, mut server) = duplex(64);
            let start = Instant::now();
            let resting = async {
                let stirred = wait_idle(&mut server, &mut seat, start, start + MINUTE).await;
                (stirred, seat.must_close(), drop(seat))
            };
            let newcomer = async {
                tokio::time::sleep(QUIET).await;
                if asks {
                    client.write_all(b"PING").await.unwrap();
                }
                let SeatOutcome::Queued(ticket) = room.request_seat(None) else {
                    panic!("no seat")
                };
                ticket.seat().await.unwrap()
            };
            let ((stirred, is_told, ()), _seat) = tokio::join!(resting, newcomer);
            let said = if asks { IdleEnd::Received(b"PING".to_vec()) } else { IdleEnd::Closed };
            assert_eq!((stirred, is_told), (said, true));
            assert_eq!(start.elapsed(), QUIET);
            close_idle(server).await;
            assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }
}
