//! A stream that returns to its lender when the borrower drops it.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream for a borrower that never returns streams, such as hyper: dropping it returns it.
pub(super) struct LentStream<IO> {
    io: Option<IO>,
    back: Arc<Mutex<Option<IO>>>,
}

/// The slot to which a lent stream returns.
pub(super) struct StreamLender<IO>(Arc<Mutex<Option<IO>>>);

/// Lends a stream.
pub(super) fn lend<IO>(io: IO) -> (LentStream<IO>, StreamLender<IO>) {
    let back = Arc::new(Mutex::new(None));
    (LentStream { io: Some(io), back: Arc::clone(&back) }, StreamLender(back))
}

impl<IO> StreamLender<IO> {
    /// The stream, if it was returned.
    pub(super) fn take(&self) -> Option<IO> {
        self.0.lock().take()
    }
}

impl<IO> fmt::Debug for LentStream<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LentStream")
    }
}

impl<IO> fmt::Debug for StreamLender<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamLender")
    }
}

impl<IO> Drop for LentStream<IO> {
    fn drop(&mut self) {
        *self.back.lock() = self.io.take();
    }
}

impl<IO: Unpin> LentStream<IO> {
    /// The stream, which is present until the drop.
    fn io(&mut self) -> io::Result<Pin<&mut IO>> {
        self.io.as_mut().map(Pin::new).ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for LentStream<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io()?.poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for LentStream<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_shutdown(cx)
    }
}
