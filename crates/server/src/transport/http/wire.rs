//! A buffer between a client's socket and hyper, which sends pipelined responses together.
//!
//! hyper writes each response to the socket separately, or with `pipeline_flush` withholds responses
//! while any byte of another request is unread. Here responses gather until hyper can do no more for
//! now, and are then sent together: the driver calls [`HttpWire::poll_send`] each time after polling the
//! connection. So a response never waits for the client to send more.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Version;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::timer::HttpProgress;
use crate::framing::InboundFraming;

/// A connection's stream with its buffers. hyper holds one end, and its driver the other.
#[derive(Debug)]
pub(super) struct HttpWire<T>(Arc<Mutex<HttpWireState<T>>>);

#[derive(Debug)]
struct HttpWireState<T> {
    stream: T,
    progress: HttpProgress,
    framing: InboundFraming,
    /// Bytes that were read to detect the version of HTTP, and that hyper has not read yet.
    peeked: Vec<u8>,
    /// Bytes that hyper has written. Those from `sent` on are not yet written to the stream.
    gathered: Vec<u8>,
    sent: usize,
    needs_flush: bool,
    /// Whether hyper waits for space in `gathered`.
    is_full: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> HttpWire<T> {
    /// `peeked` are bytes that were already read from the stream.
    pub(super) fn new(stream: T, peeked: Vec<u8>, progress: HttpProgress) -> Self {
        let framing = InboundFraming::http1();
        if !peeked.is_empty() {
            progress.record_read(&framing);
        }
        let state = HttpWireState {
            stream,
            progress,
            framing,
            peeked,
            gathered: Vec::new(),
            sent: 0,
            needs_flush: false,
            is_full: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The other end of the same wire.
    pub(super) fn other_end(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// The version of HTTP that the client uses; `None` if the client leaves before that is clear.
    pub(super) fn poll_version(&self, cx: &mut Context<'_>) -> Poll<Option<Version>> {
        let state = &mut *self.0.lock();
        loop {
            if state.peeked.starts_with(PREFACE) {
                state.progress.mark_http2();
                state.framing = InboundFraming::http2();
                return Poll::Ready(Some(Version::HTTP_2));
            }
            if !PREFACE.starts_with(&state.peeked) {
                return Poll::Ready(Some(Version::HTTP_11));
            }
            let mut chunk = [0; PREFACE.len()];
            let missing = PREFACE.len().saturating_sub(state.peeked.len());
            let mut chunk = ReadBuf::new(chunk.get_mut(..missing).unwrap_or_default());
            match ready!(Pin::new(&mut state.stream).poll_read(cx, &mut chunk)) {
                Ok(()) if !chunk.filled().is_empty() => state.peeked.extend(chunk.filled()),
                _ => return Poll::Ready(None),
            }
            state.progress.record_read(&state.framing);
        }
    }

    /// Whether an HTTP/1 connection is between two requests and has sent everything.
    pub(super) fn is_between_requests(&self) -> bool {
        let state = self.0.lock();
        state.framing.is_between_requests() && state.has_sent_all()
    }

    /// The stream, if hyper's end is dropped, and whether everything that hyper wrote has been sent.
    pub(super) fn into_stream(self) -> Option<(T, bool)> {
        let state = Arc::into_inner(self.0)?.into_inner();
        let has_sent_all = state.has_sent_all();
        Some((state.stream, has_sent_all))
    }

    /// Sends what hyper has written.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().poll_send(cx)
    }

    /// Call this after the last response: reads and drops what still arrives, at most [`MAX_LINGER`]
    /// bytes. Closing a socket with unread bytes would discard responses that are on their way. The bound
    /// is for clients that never stop sending.
    pub(super) async fn linger(&self) {
        let (mut chunk, mut received) = ([0; 4_096], 0_usize);
        while received < MAX_LINGER {
            let read = poll_fn(|cx| {
                let mut chunk = ReadBuf::new(&mut chunk);
                let stream = &mut self.0.lock().stream;
                let read = ready!(Pin::new(stream).poll_read(cx, &mut chunk));
                Poll::Ready(read.map(|()| chunk.filled().len()))
            });
            match read.await {
                Ok(length @ 1..) => received = received.saturating_add(length),
                _ => break,
            }
        }
    }
}

impl<T> HttpWireState<T> {
    const fn has_sent_all(&self) -> bool {
        self.gathered.is_empty() && !self.needs_flush
    }
}

impl<T: AsyncWrite + Unpin> HttpWireState<T> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.gathered.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => self.sent = self.sent.saturating_add(written),
            }
            self.needs_flush = true;
        }
        self.gathered.clear();
        self.sent = 0;
        if self.needs_flush {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.needs_flush = false;
        }
        if std::mem::take(&mut self.is_full) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for HttpWire<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let state = &mut *self.0.lock();
        if state.framing.is_broken() {
            state.framing.end(buf);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        if state.peeked.is_empty() {
            ready!(Pin::new(&mut state.stream).poll_read(cx, buf))?;
        } else {
            let length = state.peeked.len().min(buf.remaining());
            buf.put_slice(state.peeked.get(..length).unwrap_or_default());
            state.peeked.drain(..length);
            if state.peeked.is_empty() {
                // Free the memory: the connection can last for a long time.
                state.peeked = Vec::new();
            }
        }
        if buf.filled().len() > before {
            // `follow` returns bytes only during an upgrade, and no request here switches protocols.
            state.framing.follow(buf, before);
            state.progress.record_read(&state.framing);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for HttpWire<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.0.lock();
        if state.gathered.len() >= MAX_GATHERED && state.poll_send(cx)?.is_pending() {
            state.is_full = true;
            return Poll::Pending;
        }
        state.gathered.extend_from_slice(buf);
        state.framing.wrote(buf.len());
        Poll::Ready(Ok(buf.len()))
    }

    /// Does nothing: [`HttpWire::poll_send`] flushes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.0.lock();
        ready!(state.poll_send(cx))?;
        Pin::new(&mut state.stream).poll_shutdown(cx)
    }
}

/// The first bytes of every HTTP/2 client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Room for more than sixteen responses.
const MAX_GATHERED: usize = 16 << 10;
const MAX_LINGER: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn the_protocol_is_detected_from_any_portions_without_losing_bytes() {
        for (sent_bytes, version) in [
            (PREFACE, Version::HTTP_2),
            (&b"PRI * HTTP/1.1\r\n\r\n"[..], Version::HTTP_11),
            (b"GET / HTTP/1.1\r\n\r\n", Version::HTTP_11),
            (b"\x16\x03\x01", Version::HTTP_11),
        ] {
            let (mut client, server) = duplex(1);
            let mut wire = HttpWire::new(server, Vec::new(), HttpProgress::default());
            let talk = async {
                client.write_all(sent_bytes).await.unwrap();
                drop(client);
            };
            let listen = async {
                let seen = poll_fn(|cx| wire.poll_version(cx)).await;
                let mut received = Vec::new();
                wire.read_to_end(&mut received).await.unwrap();
                (seen, received)
            };
            let ((), (seen, received)) = tokio::join!(talk, listen);
            assert_eq!(seen, Some(version));
            assert_eq!(received, sent_bytes);
        }
    }

    #[tokio::test]
    async fn what_is_written_leaves_in_one_piece_and_is_bounded() {
        let (mut client, server) = duplex(1 << 20);
        let mut wire = HttpWire::new(server, Vec::new(), HttpProgress::default());
        for _ in 0..100 {
            wire.write_all(b"answer").await.unwrap();
            wire.flush().await.unwrap();
        }
        let mut received = [0; 1_000];
        assert!(futures_poll(client.read(&mut received)).is_none());
        poll_fn(|cx| wire.poll_send(cx)).await.unwrap();
        assert_eq!(client.read(&mut received).await.unwrap(), 600);

        let (_client, server) = duplex(10);
        let mut wire = HttpWire::new(server, Vec::new(), HttpProgress::default());
        wire.write_all(&[0; MAX_GATHERED]).await.unwrap();
        assert!(futures_poll(wire.write(b"more")).is_none());
    }

    /// Polls a future once.
    fn futures_poll<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
