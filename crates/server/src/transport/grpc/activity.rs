//! Whether a connection is in use, and when it has been silent for too long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::ListenerConfig;
use crate::seats::{IdleSeat, QUIET, Seat, SeatUse};
use crate::transport::partial_head::{PartialHead, PartialHeadTimer};

/// The calls of a connection: the lower half counts those in progress, the upper half everything
/// that has begun: the connection itself and each call.
#[derive(Clone, Debug, Default)]
pub(super) struct GrpcActivity(Arc<AtomicU64>, SeatUse);

/// A call while it lasts.
#[derive(Debug)]
pub(super) struct GrpcCallGuard(GrpcActivity);

impl GrpcActivity {
    pub(super) fn new(work: SeatUse) -> Self {
        Self(Arc::default(), work)
    }

    /// The client has said something.
    pub(super) fn record_read(&self) {
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.fetch_add(BEGUN, Ordering::Relaxed);
        }
    }

    pub(super) fn begin_call(&self) -> GrpcCallGuard {
        self.0.fetch_add(BEGUN | 1, Ordering::Relaxed);
        self.1.mark_served();
        GrpcCallGuard(self.clone())
    }
}

impl Drop for GrpcCallGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const BEGUN: u64 = 1 << 32;
const UNDER_WAY: u64 = BEGUN - 1;

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcTimerAction {
    /// There has been no call for a long time: announce that it closes.
    AnnounceClose,
    /// The client has had time to notice.
    Close,
    /// There is no call, and somebody else needs the seat.
    YieldSeat,
}

/// Resolves when a connection has had no call for longer than it may, and again when it still has
/// none some time after it was told.
pub(super) struct GrpcIdleTimer {
    activity: GrpcActivity,
    seat: Seat,
    seen: u64,
    is_close_announced: bool,
    /// While there is no call and has been none for a moment.
    rest: Option<IdleSeat>,
    /// When a connection without a call is told.
    due: Instant,
    idle_timeout: Duration,
    close_grace: Duration,
    sleep: Pin<Box<Sleep>>,
    partial_head: PartialHead,
    partial_head_timer: PartialHeadTimer,
}

impl GrpcIdleTimer {
    /// The first word has come, and all of it has to come as soon as a head.
    pub(super) fn new(
        activity: GrpcActivity,
        half: PartialHead,
        config: &ListenerConfig,
        seat: Seat,
    ) -> Self {
        let due = Instant::now() + config.header_timeout;
        Self {
            activity,
            seat,
            seen: 0,
            is_close_announced: false,
            rest: None,
            due,
            idle_timeout: config.idle_timeout,
            close_grace: config.header_timeout,
            sleep: Box::pin(sleep_until(due)),
            partial_head: half.clone(),
            partial_head_timer: PartialHeadTimer::new(half, config.header_timeout),
        }
    }

    pub(super) const fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Poll this after the connection, so that it sees the result.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<GrpcTimerAction> {
        if self.partial_head_timer.poll(cx).is_ready() {
            return Poll::Ready(GrpcTimerAction::Close);
        }
        let calls = self.activity.0.load(Ordering::Relaxed);
        if self.seen != calls && self.rest.take().is_some_and(IdleSeat::end) {
            // A call has just come, and is answered; but whoever was to have the seat waits for it.
            return Poll::Ready(GrpcTimerAction::AnnounceClose);
        }
        if calls & UNDER_WAY > 0 {
            return Poll::Pending;
        }
        if self.seen != calls {
            self.seen = calls;
            self.is_close_announced = false;
            let now = Instant::now();
            self.due = now + self.idle_timeout;
            self.sleep.as_mut().reset(now + self.idle_timeout.min(QUIET));
        }
        loop {
            let is_wanted = self.rest.as_mut().is_some_and(|rest| rest.poll_wanted(cx).is_ready());
            if is_wanted && self.partial_head.is_none() {
                return Poll::Ready(GrpcTimerAction::YieldSeat);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() >= self.due {
                break;
            }
            self.rest = Some(self.seat.idle(self.sleep.deadline()));
            self.sleep.as_mut().reset(self.due);
        }
        if self.is_close_announced {
            return Poll::Ready(GrpcTimerAction::Close);
        }
        self.is_close_announced = true;
        self.due = Instant::now() + self.close_grace;
        self.sleep.as_mut().reset(self.due);
        Poll::Ready(GrpcTimerAction::AnnounceClose)
    }
}
