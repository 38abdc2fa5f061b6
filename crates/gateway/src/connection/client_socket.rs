//! The client's side of a connection: what comes in is followed, and what does not move is seen.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tidegate_server::framing::InboundFraming;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::GatewayProgress;

/// A socket whose requests are clear.
#[derive(Debug)]
pub(super) struct ClientSocket<IO> {
    io: IO,
    /// Read already, and not handed on yet.
    kept: Bytes,
    framing: InboundFraming,
    progress: GatewayProgress,
    switch: Arc<ProtocolSwitch>,
}

/// What became of a request to switch protocols.
#[derive(Debug, Default)]
pub(crate) struct ProtocolSwitch(Mutex<(Option<bool>, Option<Waker>)>);

impl ProtocolSwitch {
    /// The request was answered, by a switch or by something else.
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
    /// `kept` was read from the socket before; `is_http1` says what to follow.
    pub(super) fn new(io: IO, kept: Bytes, is_http1: bool, progress: GatewayProgress) -> Self {
        let framing =
            if is_http1 { InboundFraming::http1_proxy() } else { InboundFraming::http2() };
        Self { io, kept, framing, progress, switch: Arc::default() }
    }

    /// Where to say what became of a request to switch protocols.
    pub(super) fn switch(&self) -> Arc<ProtocolSwitch> {
        Arc::clone(&self.switch)
    }

    /// Looks at what was read into `buf` behind `start`.
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
        let guard = self.get_mut();
        if guard.framing.is_held() {
            let is_switched = ready!(guard.switch.poll(cx));
            guard.framing.resume(is_switched);
        }
        if guard.framing.is_broken() {
            guard.framing.end(buf);
            return Poll::Ready(Ok(()));
        }
        let start = buf.filled().len();
        if guard.kept.is_empty() {
            ready!(Pin::new(&mut guard.io).poll_read(cx, buf))?;
        } else {
            let count = guard.kept.len().min(buf.remaining());
            buf.put_slice(guard.kept.get(..count).unwrap_or_default());
            guard.kept.advance(count);
            if guard.kept.is_empty() {
                // Or it would be kept for as long as the rest of a head takes.
                guard.kept = Bytes::new();
            }
        }
        if buf.filled().len() > start {
            guard.follow(start, buf);
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
        // TLS takes what it is given into a buffer: only now is it known what has left.
        let poll = Pin::new(&mut self.io).poll_flush(cx);
        self.record_pending(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
