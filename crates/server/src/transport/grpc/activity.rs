//! Tracks the calls of a gRPC connection, and ends a connection that is idle for too long.

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

/// The calls of a connection. The lower 32 bits count the calls in progress, the upper 32 bits count
/// everything that has begun: the connection itself and each call.
#[derive(Clone, Debug, Default)]
pub(super) struct GrpcActivity(Arc<AtomicU64>, SeatUse);

/// A call in progress, until the guard is dropped.
#[derive(Debug)]
pub(super) struct GrpcCallGuard(GrpcActivity);

impl GrpcActivity {
    pub(super) fn new(work: SeatUse) -> Self {
        Self(Arc::default(), work)
    }

    /// Records that the client has sent bytes: from then on it is idle between calls.
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

/// What must be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcTimerAction {
    /// There has been no call for too long: announce that the connection closes.
    AnnounceClose,
    /// The client has had time to react to the announcement, or a head takes too long.
    Close,
    /// There is no call, and another client needs the seat.
    YieldSeat,
}

/// Resolves when a connection has had no call for too long, and again when it still has none some time
/// after the close was announced.
pub(super) struct GrpcIdleTimer {
    activity: GrpcActivity,
    seat: Seat,
    seen: u64,
    is_close_announced: bool,
    /// Set while there has been no call for at least [`QUIET`].
    idle_seat: Option<IdleSeat>,
    /// When the next action is due if no call begins.
    due: Instant,
    idle_timeout: Duration,
    close_grace: Duration,
    sleep: Pin<Box<Sleep>>,
    partial_head: PartialHead,
    partial_head_timer: PartialHeadTimer,
}

impl GrpcIdleTimer {
    /// The client has sent its first bytes. Its preface has as much time as a head.
    pub(super) fn new(
        activity: GrpcActivity,
        partial_head: PartialHead,
        config: &ListenerConfig,
        seat: Seat,
    ) -> Self {
        let due = Instant::now() + config.header_timeout;
        Self {
            activity,
            seat,
            seen: 0,
            is_close_announced: false,
            idle_seat: None,
            due,
            idle_timeout: config.idle_timeout,
            close_grace: config.header_timeout,
            sleep: Box::pin(sleep_until(due)),
            partial_head: partial_head.clone(),
            partial_head_timer: PartialHeadTimer::new(partial_head, config.header_timeout),
        }
    }

    pub(super) const fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Poll this after the connection, so that the timer sees the connection's progress.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<GrpcTimerAction> {
        if self.partial_head_timer.poll(cx).is_ready() {
            return Poll::Ready(GrpcTimerAction::Close);
        }
        let calls = self.activity.0.load(Ordering::Relaxed);
        if self.seen != calls && self.idle_seat.take().is_some_and(IdleSeat::end) {
            // A call has just begun and will be answered, but another client already waits for the seat.
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
            let is_wanted =
                self.idle_seat.as_mut().is_some_and(|seat| seat.poll_wanted(cx).is_ready());
            if is_wanted && self.partial_head.is_none() {
                return Poll::Ready(GrpcTimerAction::YieldSeat);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() >= self.due {
                break;
            }
            self.idle_seat = Some(self.seat.idle(self.sleep.deadline()));
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
