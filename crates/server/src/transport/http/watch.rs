//! Which deadline a connection is under.
//!
//! hyper has one timeout, for the head, and it runs while a connection is idle too: one number
//! for two purposes. Here a silent client may stay for long and a slow one may not, with one
//! timer a connection that is moved and not made anew for each request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::Config;

/// What a connection is doing. Shared by its socket, its service and its deadline, which all
/// live in one task.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<AtomicU32>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Some of a head has come, or the connection is new.
    Head = 0,
    /// A request is being answered; its body has a timeout of its own.
    Answer = 1,
    /// Between requests.
    Idle = 2,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU32::new(Phase::Head as u32)))
    }

    /// A request's head is complete.
    pub(super) fn answering(&self) {
        self.enter(Phase::Answer);
    }

    /// The request is answered.
    pub(super) fn answered(&self) {
        self.enter(Phase::Idle);
    }

    fn heard(&self) {
        if phase(self.stamp()) == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// Differs after every step, even one back into the same phase.
    fn stamp(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self, phase: Phase) {
        let step = (self.stamp() & !PHASE_BITS).wrapping_add(PHASE_BITS + 1);
        self.0.store(step | phase as u32, Ordering::Relaxed);
    }
}

fn phase(stamp: u32) -> Phase {
    match stamp & PHASE_BITS {
        0 => Phase::Head,
        1 => Phase::Answer,
        _ => Phase::Idle,
    }
}

const PHASE_BITS: u32 = 0b11;

/// Resolves when a connection has been in one phase for longer than it may.
pub(super) struct Deadline {
    progress: Progress,
    seen: u32,
    header_timeout: Duration,
    idle_timeout: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    pub(super) fn new(progress: Progress, config: &Config) -> Self {
        Self {
            seen: progress.stamp(),
            progress,
            header_timeout: config.header_timeout,
            idle_timeout: config.idle_timeout,
            sleep: Box::pin(sleep(config.header_timeout)),
        }
    }

    /// To be polled after the connection, so that it sees what has come of that.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let stamp = self.progress.stamp();
        let timeout = match phase(stamp) {
            Phase::Head => self.header_timeout,
            Phase::Answer => return Poll::Pending,
            Phase::Idle => self.idle_timeout,
        };
        if self.seen != stamp {
            self.seen = stamp;
            self.sleep.as_mut().reset(Instant::now() + timeout);
        }
        self.sleep.as_mut().poll(cx)
    }
}

/// A socket that tells when its client says something.
pub(super) struct Watched<T> {
    inner: T,
    progress: Progress,
}

impl<T> Watched<T> {
    pub(super) const fn new(inner: T, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.progress.heard();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
