//! A client's bytes, between the socket and hyper.
//!
//! hyper writes each answer to the socket by itself, or with `pipeline_flush` withholds answers
//! while any byte of another request is unread. Here answers gather until hyper has done what it
//! can for now, and then leave in one piece: [`HttpWire::poll_send`] is called each time after the
//! connection was polled. So nothing that hyper has written ever waits for the client.

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

/// A connection's bytes. hyper has one end, and its driver the other.
#[derive(Debug)]
pub(super) struct HttpWire<T>(Arc<Mutex<HttpWireState<T>>>);

#[derive(Debug)]
struct HttpWireState<T> {
    stream: T,
    progress: HttpProgress,
    framing: InboundFraming,
    /// Read to see what is spoken, and not yet by hyper.
    peeked: Vec<u8>,
    /// Written by hyper, and from `sent` on not yet to the stream.
    gathered: Vec<u8>,
    sent: usize,
    needs_flush: bool,
    /// Whether hyper waits until more can be written.
    is_full: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> HttpWire<T> {
    /// `peeked` was read before, and comes first.
    pub(super) fn new(stream: T, peeked: Vec<u8>, progress: HttpProgress) -> Self {
        let framing = InboundFraming::http1();
        if !peeked.is_empty() {
            progress.record_read(&framing);
        }
        let ends = HttpWireState {
            stream,
            progress,
            framing,
            peeked,
            gathered: Vec::new(),
            sent: 0,
            needs_flush: false,
            is_full: false,
        };
        Self(Arc::new(Mutex::new(ends)))
    }

    /// The other end.
    pub(super) fn other_end(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// Which version of HTTP the client speaks; `None` if it says nothing and leaves.
    pub(super) fn poll_version(&self, cx: &mut Context<'_>) -> Poll<Option<Version>> {
        let ends = &mut *self.0.lock();
        loop {
            if ends.peeked.starts_with(PREFACE) {
                ends.progress.mark_http2();
                ends.framing = InboundFraming::http2();
                return Poll::Ready(Some(Version::HTTP_2));
            }
            if !PREFACE.starts_with(&ends.peeked) {
                return Poll::Ready(Some(Version::HTTP_11));
            }
            let mut chunk = [0; PREFACE.len()];
            let missing = PREFACE.len().saturating_sub(ends.peeked.len());
            let mut chunk = ReadBuf::new(chunk.get_mut(..missing).unwrap_or_default());
            match ready!(Pin::new(&mut ends.stream).poll_read(cx, &mut chunk)) {
                Ok(()) if !chunk.filled().is_empty() => ends.peeked.extend(chunk.filled()),
                _ => return Poll::Ready(None),
            }
            ends.progress.record_read(&ends.framing);
        }
    }

    /// Whether HTTP/1 is between two requests, with nothing left to be sent.
    pub(super) fn is_between_requests(&self) -> bool {
        let ends = self.0.lock();
        ends.framing.is_between_requests() && ends.has_sent_all()
    }

    /// The stream, once hyper is gone, and whether all that was written to it has left.
    pub(super) fn into_stream(self) -> Option<(T, bool)> {
        let ends = Arc::into_inner(self.0)?.into_inner();
        let has_sent_all = ends.has_sent_all();
        Some((ends.stream, has_sent_all))
    }

    /// Sends what has gathered.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().poll_send(cx)
    }

    /// After the last answer: reads what is still coming, [`MAX_LINGER`] bytes at most. A socket that
    /// is closed with something unread discards answers that are on their way. A client that never
    /// stops sending is not worth more than that.
    pub(super) async fn linger(&self) {
        let (mut chunk, mut heard) = ([0; 4_096], 0_usize);
        while heard < MAX_LINGER {
            let read = poll_fn(|cx| {
                let mut chunk = ReadBuf::new(&mut chunk);
                let stream = &mut self.0.lock().stream;
                let read = ready!(Pin::new(stream).poll_read(cx, &mut chunk));
                Poll::Ready(read.map(|()| chunk.filled().len()))
            });
            match read.await {
                Ok(length @ 1..) => heard = heard.saturating_add(length),
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
        let ends = &mut *self.0.lock();
        if ends.framing.is_broken() {
            ends.framing.end(buf);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        if ends.peeked.is_empty() {
            ready!(Pin::new(&mut ends.stream).poll_read(cx, buf))?;
        } else {
            let length = ends.peeked.len().min(buf.remaining());
            buf.put_slice(ends.peeked.get(..length).unwrap_or_default());
            ends.peeked.drain(..length);
            if ends.peeked.is_empty() {
                // No longer needed, and the connection may last for a long time.
                ends.peeked = Vec::new();
            }
        }
        if buf.filled().len() > before {
            // Nothing is ever kept: no request here switches to another protocol.
            ends.framing.follow(buf, before);
            ends.progress.record_read(&ends.framing);
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
        let ends = &mut *self.0.lock();
        if ends.gathered.len() >= MAX_GATHERED && ends.poll_send(cx)?.is_pending() {
            ends.is_full = true;
            return Poll::Pending;
        }
        ends.gathered.extend_from_slice(buf);
        ends.framing.wrote(buf.len());
        Poll::Ready(Ok(buf.len()))
    }

    /// Happens in [`HttpWire::poll_send`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ends = &mut *self.0.lock();
        ready!(ends.poll_send(cx))?;
        Pin::new(&mut ends.stream).poll_shutdown(cx)
    }
}

/// What every HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// More than sixteen answers.
const MAX_GATHERED: usize = 16 << 10;
const MAX_LINGER: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_spoken_is_seen_however_it_comes_and_nothing_is_lost() {
        for (said, version) in [
            (PREFACE, Version::HTTP_2),
            (&b"PRI * HTTP/1.1\r\n\r\n"[..], Version::HTTP_11),
            (b"GET / HTTP/1.1\r\n\r\n", Version::HTTP_11),
            (b"\x16\x03\x01", Version::HTTP_11),
        ] {
            let (mut client, server) = duplex(1);
            let mut wire = HttpWire::new(server, Vec::new(), HttpProgress::default());
            let talk = async {
                client.write_all(said).await.unwrap();
                drop(client);
            };
            let listen = async {
                let seen = poll_fn(|cx| wire.poll_version(cx)).await;
                let mut heard = Vec::new();
                wire.read_to_end(&mut heard).await.unwrap();
                (seen, heard)
            };
            let ((), (seen, heard)) = tokio::join!(talk, listen);
            assert_eq!(seen, Some(version));
            assert_eq!(heard, said);
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
        let mut heard = [0; 1_000];
        assert!(futures_poll(client.read(&mut heard)).is_none());
        poll_fn(|cx| wire.poll_send(cx)).await.unwrap();
        assert_eq!(client.read(&mut heard).await.unwrap(), 600);

        let (_client, server) = duplex(10);
        let mut wire = HttpWire::new(server, Vec::new(), HttpProgress::default());
        wire.write_all(&[0; MAX_GATHERED]).await.unwrap();
        assert!(futures_poll(wire.write(b"more")).is_none());
    }

    /// Its current value.
    fn futures_poll<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
