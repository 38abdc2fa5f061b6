//! A client's socket: it checks the framing of received bytes, and notices a client that does not read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tidegate_server::framing::InboundFraming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::GatewayProgress;

/// A socket that passes on only requests with unambiguous framing.
#[derive(Debug)]
pub(super) struct ClientSocket<IO> {
    io: IO,
    /// Bytes that were read but not passed on yet.
    kept: Bytes,
    framing: InboundFraming,
    progress: GatewayProgress,
    switch: Arc<ProtocolSwitch>,
}

/// Whether a request to switch protocols was granted. The socket waits for this before it reads on.
#[derive(Debug, Default)]
pub(crate) struct ProtocolSwitch(Mutex<(Option<bool>, Option<Waker>)>);

impl ProtocolSwitch {
    /// Sets the result once the request is answered.
    pub(crate) fn set_switched(&self, is_switched: bool) {
        let mut switch = self.0.lock();
        switch.0 = Some(is_switched);
        if let Some(waker) = switch.1.take() {
            waker.wake();
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut switch = self.0.lock();
        match switch.0.take() {
            Some(is_switched) => Poll::Ready(is_switched),
            None => {
                switch.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<IO> ClientSocket<IO> {
    /// `kept` was read from the socket before; `is_http1` chooses the framing.
    pub(super) fn new(io: IO, kept: Bytes, is_http1: bool, progress: GatewayProgress) -> Self {
        let framing =
            if is_http1 { InboundFraming::http1_proxy() } else { InboundFraming::http2() };
        Self { io, kept, framing, progress, switch: Arc::default() }
    }

    /// The place for the result of a request to switch protocols.
    pub(super) fn switch(&self) -> Arc<ProtocolSwitch> {
        Arc::clone(&self.switch)
    }

    /// Checks the bytes that were read into `buf` after `start`.
    fn follow(&mut self, start: usize, buf: &mut ReadBuf<'_>) {
        let kept = self.framing.follow(buf, start);
        if !kept.is_empty() {
            self.kept = [&kept, &self.kept[..]].concat().into();
        }
        self.progress.record_framing(&self.framing);
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ClientSocket<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        if socket.framing.is_held() {
            let is_switched = ready!(socket.switch.poll(cx));
            socket.framing.resume(is_switched);
        }
        if socket.framing.is_broken() {
            socket.framing.end(buf);
            return Poll::Ready(Ok(()));
        }
        let start = buf.filled().len();
        if socket.kept.is_empty() {
            ready!(Pin::new(&mut socket.io).poll_read(cx, buf))?;
        } else {
            let count = socket.kept.len().min(buf.remaining());
            buf.put_slice(socket.kept.get(..count).unwrap_or_default());
            socket.kept.advance(count);
            if socket.kept.is_empty() {
                // Release the memory now, not when the rest of the head has arrived.
                socket.kept = Bytes::new();
            }
        }
        if buf.filled().len() > start {
            socket.follow(start, buf);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> ClientSocket<IO> {
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

impl<IO: AsyncWrite + Unpin> AsyncWrite for ClientSocket<IO> {
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
