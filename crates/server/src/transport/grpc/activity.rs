//! Whether a connection is in use, and when it has been silent for too long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::Config;
use crate::room::{QUIET, Rest, Seat, SeatUse};
use crate::transport::half::{Half, HalfDeadline};

/// The calls of a connection: the lower half counts those in progress, the upper half everything
/// that has begun: the connection itself and each call.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<AtomicU64>, SeatUse);

/// A call while it lasts.
#[derive(Debug)]
pub(super) struct Call(Activity);

impl Activity {
    pub(super) fn new(work: SeatUse) -> Self {
        Self(Arc::default(), work)
    }

    /// The client has said something.
    pub(super) fn heard(&self) {
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.fetch_add(BEGUN, Ordering::Relaxed);
        }
    }

    pub(super) fn begin(&self) -> Call {
        self.0.fetch_add(BEGUN | 1, Ordering::Relaxed);
        self.1.serves();
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
    /// There is no call, and somebody else needs the seat.
    Leave,
}

/// Resolves when a connection has had no call for longer than it may, and again when it still has
/// none some time after it was told.
pub(super) struct Deadline {
    activity: Activity,
    seat: Seat,
    seen: u64,
    is_told: bool,
    /// While there is no call and has been none for a moment.
    rest: Option<Rest>,
    /// When a connection without a call is told.
    due: Instant,
    idle_timeout: Duration,
    farewell: Duration,
    sleep: Pin<Box<Sleep>>,
    half: Half,
    half_due: HalfDeadline,
}

impl Deadline {
    /// The first word has come, and all of it has to come as soon as a head.
    pub(super) fn new(activity: Activity, half: Half, config: &Config, seat: Seat) -> Self {
        let due = Instant::now() + config.header_timeout;
        Self {
            activity,
            seat,
            seen: 0,
            is_told: false,
            rest: None,
            due,
            idle_timeout: config.idle_timeout,
            farewell: config.header_timeout,
            sleep: Box::pin(sleep_until(due)),
            half: half.clone(),
            half_due: HalfDeadline::new(half, config.header_timeout),
        }
    }

    pub(super) const fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Poll this after the connection, so that it sees the result.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Due> {
        if self.half_due.poll(cx).is_ready() {
            return Poll::Ready(Due::Close);
        }
        let calls = self.activity.0.load(Ordering::Relaxed);
        if self.seen != calls && self.rest.take().is_some_and(Rest::end) {
            // A call has just come, and is answered; but whoever was to have the seat waits for it.
            return Poll::Ready(Due::Farewell);
        }
        if calls & UNDER_WAY > 0 {
            return Poll::Pending;
        }
        if self.seen != calls {
            self.seen = calls;
            self.is_told = false;
            let now = Instant::now();
            self.due = now + self.idle_timeout;
            self.sleep.as_mut().reset(now + self.idle_timeout.min(QUIET));
        }
        loop {
            let is_wanted = self.rest.as_mut().is_some_and(|rest| rest.poll_wanted(cx).is_ready());
            if is_wanted && self.half.is_none() {
                return Poll::Ready(Due::Leave);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() >= self.due {
                break;
            }
            self.rest = Some(self.seat.rest(self.sleep.deadline()));
            self.sleep.as_mut().reset(self.due);
        }
        if self.is_told {
            return Poll::Ready(Due::Close);
        }
        self.is_told = true;
        self.due = Instant::now() + self.farewell;
        self.sleep.as_mut().reset(self.due);
        Poll::Ready(Due::Farewell)
    }
}
