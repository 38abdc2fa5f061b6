//! A client's stream as hyper gets it: it checks the framing of received bytes, and records progress.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::HttpProgress;
use crate::net::framing::InboundFraming;

/// A stream that passes on only requests with unambiguous framing.
#[derive(Debug)]
pub(super) struct WatchedStream<IO> {
    io: IO,
    /// Bytes that were read but not passed on yet.
    unread: Vec<u8>,
    framing: InboundFraming,
    progress: HttpProgress,
}

impl<IO> WatchedStream<IO> {
    /// `unread` was read from the stream before. `is_proxy` is for requests that are forwarded.
    pub(super) fn new(io: IO, unread: Vec<u8>, is_proxy: bool, progress: HttpProgress) -> Self {
        let framing = match progress.is_http2() {
            true => InboundFraming::http2(),
            false if is_proxy => InboundFraming::http1_proxy(),
            false => InboundFraming::http1(),
        };
        Self { io, unread, framing, progress }
    }

    /// Checks the bytes that were read into `buf` after `start`.
    fn follow(&mut self, start: usize, buf: &mut ReadBuf<'_>) {
        let mut kept = self.framing.follow(buf, start);
        if !kept.is_empty() {
            kept.append(&mut self.unread);
            self.unread = kept;
        }
        self.progress.record_framing(&self.framing);
    }

    fn record_pending<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.progress.set_stuck(poll.is_pending());
        poll
    }

    fn record_written(&mut self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = &poll {
            self.framing.wrote(*count);
        }
        self.record_pending(poll)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for WatchedStream<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.framing.is_held() {
            let is_switched = ready!(stream.progress.poll_switched(cx));
            stream.framing.resume(is_switched);
        }
        if stream.framing.is_broken() {
            stream.framing.end(buf);
            return Poll::Ready(Ok(()));
        }
        let start = buf.filled().len();
        if stream.unread.is_empty() {
            ready!(Pin::new(&mut stream.io).poll_read(cx, buf))?;
        } else {
            let count = stream.unread.len().min(buf.remaining());
            buf.put_slice(stream.unread.get(..count).unwrap_or_default());
            stream.unread.drain(..count);
            if stream.unread.is_empty() {
                // Free the memory: the connection can last for a long time.
                stream.unread = Vec::new();
            }
        }
        if buf.filled().len() > start {
            stream.follow(start, buf);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for WatchedStream<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(cx, buf);
        self.record_written(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.record_written(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS buffers its writes: only a flush shows whether the bytes were sent.
        let poll = Pin::new(&mut self.io).poll_flush(cx);
        self.record_pending(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex};

    use super::super::progress::HttpPhase;
    use super::*;
    use crate::net::seats::SeatUse;

    /// Like TLS, the writer accepts everything immediately, and sends it when the client reads.
    #[tokio::test]
    async fn what_was_taken_and_has_not_left_is_under_way() {
        let progress = HttpProgress::new(SeatUse::default());
        progress.mark_answered();
        let (mut client, server) = duplex(1);
        let mut stream =
            WatchedStream::new(BufWriter::new(server), Vec::new(), true, progress.clone());
        stream.write_all(b"answer").await.unwrap();
        let flush = poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_flush(cx)));
        assert!(flush.await.is_pending());
        assert_eq!(progress.phase(), HttpPhase::Stuck);
        let mut received = [0; 6];
        let (read, flushed) = tokio::join!(client.read_exact(&mut received), stream.flush());
        assert!(read.is_ok() && flushed.is_ok());
        assert_eq!(progress.phase(), HttpPhase::Idle);
    }
}
