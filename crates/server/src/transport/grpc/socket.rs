//! A gRPC connection's socket, which records reads and heads that arrive in part.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::GrpcActivity;
use crate::framing::InboundFraming;
use crate::transport::partial_head::PartialHead;

/// Wraps a connection's stream and reports what is read to its [`GrpcActivity`] and [`PartialHead`].
pub(super) struct GrpcSocket<T> {
    inner: T,
    /// Bytes that were read before this socket was created.
    first: Vec<u8>,
    activity: GrpcActivity,
    framing: InboundFraming,
    partial_head: PartialHead,
}

impl<T> GrpcSocket<T> {
    pub(super) fn new(
        inner: T,
        first: Vec<u8>,
        activity: GrpcActivity,
        partial_head: PartialHead,
    ) -> Self {
        Self { inner, first, activity, framing: InboundFraming::http2(), partial_head }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for GrpcSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let this = &mut *self;
        if this.framing.is_broken() {
            this.framing.end(buf);
            return Poll::Ready(Ok(()));
        }
        if this.first.is_empty() {
            ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        } else {
            let length = this.first.len().min(buf.remaining());
            buf.put_slice(this.first.get(..length).unwrap_or_default());
            this.first.drain(..length);
        }
        this.activity.record_read();
        this.framing.follow(buf, before);
        this.partial_head.update(&this.framing);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for GrpcSocket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.framing.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, bufs))?;
        self.framing.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
