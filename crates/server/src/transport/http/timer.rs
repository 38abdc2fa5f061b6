//! Tracks a connection's phase, and ends a connection that stays in one phase for too long.
//!
//! hyper has only one timeout for reading a head, and it also runs while a connection is idle. Here an
//! idle client can stay for a long time, but a slow one cannot. Each connection has one timer, which is
//! moved rather than recreated for each request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::ListenerConfig;
use crate::framing::InboundFraming;
use crate::seats::{IdleSeat, QUIET, Seat, SeatUse};
use crate::transport::partial_head::{PartialHead, PartialHeadTimer};

/// A connection's progress. Shared by its socket, its requests and its timer.
#[derive(Clone, Debug, Default)]
pub(super) struct HttpProgress(Arc<HttpProgressState>);

#[derive(Debug, Default)]
struct HttpProgressState {
    /// The current phase in the low bits, and above them a counter of steps.
    stamp: AtomicU32,
    /// The number of requests that are being answered: HTTP/2 can have many at a time.
    requests: AtomicU32,
    is_closing: AtomicBool,
    is_http2: AtomicBool,
    partial_head: PartialHead,
    work: SeatUse,
}

/// What a connection is doing, which determines its timeout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpPhase {
    /// Nothing has arrived yet.
    New = 0,
    /// Part of a head has arrived.
    Head = 1,
    /// Requests are being answered; their bodies have timeouts of their own.
    Answer = 2,
    /// Between requests.
    Idle = 3,
}

impl HttpProgress {
    pub(super) fn new(work: SeatUse) -> Self {
        Self(Arc::new(HttpProgressState { work, ..HttpProgressState::default() }))
    }

    /// Marks the connection as HTTP/2, which also carries frames that are not requests. So the connection
    /// is idle whenever no request is being answered, even while frames arrive. A partial head has a
    /// timer of its own.
    pub(super) fn mark_http2(&self) {
        self.0.is_http2.store(true, Ordering::Relaxed);
        self.enter(HttpPhase::Idle);
    }

    /// Records that a request's head is complete. Drop the guard when the request is answered.
    pub(super) fn begin_answer(&self) -> HttpAnswerGuard {
        if self.0.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.enter(HttpPhase::Answer);
        }
        self.0.work.mark_served();
        HttpAnswerGuard(self.clone())
    }

    /// Records that HTTP/1 requests were answered immediately, without a guard.
    pub(super) fn mark_answered(&self) {
        self.0.work.mark_served();
        self.enter(HttpPhase::Idle);
    }

    /// For HTTP/2, the last stream that a request has begun.
    pub(super) fn last_stream(&self) -> u32 {
        self.0.partial_head.last_stream()
    }

    /// Whether the connection has to end soon.
    pub(super) fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Relaxed)
    }

    pub(super) fn record_read(&self, framing: &InboundFraming) {
        if self.0.is_http2.load(Ordering::Relaxed) {
            self.0.partial_head.update(framing);
        } else if matches!(phase(self.stamp()), HttpPhase::New | HttpPhase::Idle) {
            self.enter(HttpPhase::Head);
        }
    }

    fn close(&self) {
        self.0.is_closing.store(true, Ordering::Relaxed);
        self.enter(phase(self.stamp()));
    }

    /// Changes with every step, even a step back into the same phase.
    fn stamp(&self) -> u32 {
        self.0.stamp.load(Ordering::Relaxed)
    }

    fn enter(&self, phase: HttpPhase) {
        let step = |stamp: u32| (stamp & !PHASE_BITS).wrapping_add(PHASE_BITS + 1) | phase as u32;
        let _ = self
            .0
            .stamp
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |stamp| Some(step(stamp)));
    }
}

fn phase(stamp: u32) -> HttpPhase {
    match stamp & PHASE_BITS {
        0 => HttpPhase::New,
        1 => HttpPhase::Head,
        2 => HttpPhase::Answer,
        _ => HttpPhase::Idle,
    }
}

const PHASE_BITS: u32 = 0b11;

/// A request that is being answered. Dropped when it is answered, or when its client gives up.
pub(super) struct HttpAnswerGuard(HttpProgress);

impl Drop for HttpAnswerGuard {
    fn drop(&mut self) {
        if self.0.0.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.enter(HttpPhase::Idle);
        }
    }
}

/// What must be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpTimerAction {
    /// HTTP/1: nothing has been in progress for a while, so the connection can rest. Reported once.
    Rest,
    /// HTTP/2: the connection is at rest, and another client needs its seat.
    YieldSeat,
    /// The connection has been in one phase for too long.
    Close,
}

/// Resolves when a connection has to end or can rest.
pub(super) struct HttpConnectionTimer {
    progress: HttpProgress,
    pub(super) seat: Seat,
    seen: u32,
    header_timeout: Duration,
    idle_timeout: Duration,
    /// When the current phase has lasted for too long.
    due: Instant,
    sleep: Pin<Box<Sleep>>,
    partial_head_timer: PartialHeadTimer,
    /// Whether the connection has been idle for at least [`QUIET`].
    is_quiet: bool,
    /// If so, since when. Not when the timer noticed it: seats are taken in the order of these times.
    pub(super) rests_from: Instant,
    /// HTTP/2 only: set while the connection is at rest. HTTP/1 rests outside of this timer.
    idle_seat: Option<IdleSeat>,
    /// Resolves when the connection must close; `None` after that.
    closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpConnectionTimer {
    /// A timer for a connection whose head has begun and must be complete by `due`.
    pub(super) fn new(
        progress: HttpProgress,
        config: &ListenerConfig,
        seat: Seat,
        due: Instant,
    ) -> Self {
        let closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>> =
            (!seat.must_close()).then(|| Box::pin(seat.wait_must_close()) as _);
        if closed.is_none() {
            progress.close();
        }
        Self {
            seen: progress.stamp(),
            partial_head_timer: PartialHeadTimer::new(
                progress.0.partial_head.clone(),
                config.header_timeout,
            ),
            progress,
            seat,
            header_timeout: config.header_timeout,
            idle_timeout: config.idle_timeout,
            due,
            sleep: Box::pin(sleep_until(due)),
            is_quiet: false,
            rests_from: due,
            idle_seat: None,
            closed,
        }
    }

    /// Whether the connection has to end after the requests in progress: because the server closes, or
    /// another client needs the seat. From then on an idle connection has only [`CLOSING_GRACE`] left.
    pub(super) fn should_close(&mut self, cx: &mut Context<'_>) -> bool {
        if self.closed.as_mut().is_some_and(|closed| closed.as_mut().poll(cx).is_ready()) {
            self.close();
        }
        self.is_closing()
    }

    /// The same, without checking for news.
    pub(super) fn is_closing(&self) -> bool {
        self.progress.is_closing()
    }

    /// Lets the connection end: when idle, it has only [`CLOSING_GRACE`] left.
    pub(super) fn close(&mut self) {
        self.closed = None;
        self.progress.close();
    }

    /// Resolves when something must be done. Poll this after the connection, so that the timer sees the
    /// connection's progress.
    pub(super) fn poll_action(&mut self, cx: &mut Context<'_>) -> Poll<HttpTimerAction> {
        if self.partial_head_timer.poll(cx).is_ready() {
            return Poll::Ready(HttpTimerAction::Close);
        }
        let stamp = self.progress.stamp();
        if self.seen != stamp {
            self.end_rest();
        }
        let (phase, before) = (phase(stamp), phase(self.seen));
        if phase == HttpPhase::Answer {
            // Only to poll again later: the end of an HTTP/2 request does not always wake this task.
            while self.sleep.as_mut().poll(cx).is_ready() {
                self.sleep.as_mut().reset(Instant::now() + self.idle_timeout);
            }
            return Poll::Pending;
        }
        // The first head shares the timeout of the new connection.
        let is_first_head = before == HttpPhase::New && phase == HttpPhase::Head;
        if self.seen != stamp && !is_first_head {
            self.due = Instant::now() + self.timeout_of(phase);
            if self.due < self.sleep.deadline() {
                self.sleep.as_mut().reset(self.due);
            }
        }
        self.seen = stamp;
        // An occasional early wake-up is cheaper than moving the timer for each request.
        loop {
            if let Some(idle_seat) = &mut self.idle_seat
                && idle_seat.poll_wanted(cx).is_ready()
                && self.progress.0.partial_head.is_none()
            {
                return Poll::Ready(HttpTimerAction::YieldSeat);
            }
            ready!(self.sleep.as_mut().poll(cx));
            if self.due <= self.sleep.deadline() {
                if phase != HttpPhase::Idle || self.is_quiet || self.progress.is_closing() {
                    return Poll::Ready(HttpTimerAction::Close);
                }
                self.is_quiet = true;
                self.rests_from = self.due;
                self.due += self.idle_timeout.saturating_sub(QUIET);
                if !self.progress.0.is_http2.load(Ordering::Relaxed) {
                    return Poll::Ready(HttpTimerAction::Rest);
                }
                self.idle_seat = Some(self.seat.idle(self.rests_from));
            }
            self.sleep.as_mut().reset(self.due);
        }
    }

    /// Ends the rest. If another client already waits for the seat, the connection closes.
    fn end_rest(&mut self) {
        self.is_quiet = false;
        if self.idle_seat.take().is_some_and(IdleSeat::end) {
            self.close();
        }
    }

    fn timeout_of(&self, phase: HttpPhase) -> Duration {
        match phase {
            HttpPhase::New | HttpPhase::Idle if self.progress.is_closing() => CLOSING_GRACE,
            HttpPhase::New | HttpPhase::Head => self.header_timeout,
            HttpPhase::Idle => self.idle_timeout.min(QUIET),
            HttpPhase::Answer => self.idle_timeout,
        }
    }
}

/// Long enough for a request that is already on its way when the server closes: its client could not
/// know in time.
pub(super) const CLOSING_GRACE: Duration = Duration::from_secs(1);
