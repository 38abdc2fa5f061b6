//! Whether a connection is in use, and when it has been silent for too long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::Config;
use crate::transport::half::{Half, HalfDeadline};

/// The calls of a connection: the lower half counts those in progress, the upper half everything
/// that has begun: the connection itself and each call.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<AtomicU64>);

/// A call while it lasts.
#[derive(Debug)]
pub(super) struct Call(Activity);

impl Activity {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The client has said something.
    pub(super) fn heard(&self) {
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.fetch_add(BEGUN, Ordering::Relaxed);
        }
    }

    pub(super) fn begin(&self) -> Call {
        self.0.fetch_add(BEGUN | 1, Ordering::Relaxed);
        Call(self.clone())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const BEGUN: u64 = 1 << 32;
const UNDER_WAY: u64 = BEGUN - 1;

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// There has been no call for a long time: announce that it closes.
    Farewell,
    /// The client has had time to notice.
    Close,
}

/// Resolves when a connection has had no call for longer than it may, and again when it still has
/// none some time after it was told.
pub(super) struct Deadline {
    activity: Activity,
    seen: u64,
    is_told: bool,
    idle_timeout: Duration,
    farewell: Duration,
    sleep: Pin<Box<Sleep>>,
    half: HalfDeadline,
}

impl Deadline {
    /// The first word has to come as soon as a head.
    pub(super) fn new(activity: Activity, half: Half, config: &Config) -> Self {
        Self {
            activity,
            seen: 0,
            is_told: false,
            idle_timeout: config.idle_timeout,
            farewell: config.header_timeout,
            sleep: Box::pin(sleep(config.header_timeout)),
            half: HalfDeadline::new(half, config.header_timeout),
        }
    }

    /// Poll this after the connection, so that it sees the result.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        if self.half.poll(cx).is_ready() {
            return Poll::Ready(Due::Close);
        }
        let calls = self.activity.0.load(Ordering::Relaxed);
        if calls & UNDER_WAY > 0 {
            return Poll::Pending;
        }
        if self.seen != calls {
            self.seen = calls;
            self.is_told = false;
            self.sleep.as_mut().reset(Instant::now() + self.idle_timeout);
        }
        ready!(self.sleep.as_mut().poll(cx));
        if self.is_told {
            return Poll::Ready(Due::Close);
        }
        self.is_told = true;
        self.sleep.as_mut().reset(Instant::now() + self.farewell);
        Poll::Ready(Due::Farewell)
    }
}
