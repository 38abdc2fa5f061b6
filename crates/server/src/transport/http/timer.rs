//! Which deadline a connection is under.
//!
//! hyper has one timeout, for the head, and it runs while a connection is idle too: one number for
//! two purposes. Here a silent client may stay for a long time and a slow one may not, with one
//! timer per connection that is moved rather than recreated for each request.

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

/// What a connection is doing. Shared by its socket, its requests and its deadline.
#[derive(Clone, Debug, Default)]
pub(super) struct HttpProgress(Arc<HttpProgressState>);

#[derive(Debug, Default)]
struct HttpProgressState {
    stamp: AtomicU32,
    /// Requests that are being answered: HTTP/2 has many at a time.
    requests: AtomicU32,
    is_closing: AtomicBool,
    is_http2: AtomicBool,
    partial_head: PartialHead,
    work: SeatUse,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpPhase {
    /// Nothing has come yet.
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

    /// HTTP/2 says things that are not requests. So it is idle whenever no request is being
    /// answered, whatever is heard; a head that has arrived in part has a deadline of its own.
    pub(super) fn mark_http2(&self) {
        self.0.is_http2.store(true, Ordering::Relaxed);
        self.enter(HttpPhase::Idle);
    }

    /// A request's head is complete. The request is answered when the result is dropped.
    pub(super) fn begin_answer(&self) -> HttpAnswerGuard {
        if self.0.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            self.enter(HttpPhase::Answer);
        }
        self.0.work.mark_served();
        HttpAnswerGuard(self.clone())
    }

    /// HTTP/1 requests were answered at once.
    pub(super) fn mark_answered(&self) {
        self.0.work.mark_served();
        self.enter(HttpPhase::Idle);
    }

    /// For HTTP/2, the last stream that a request has begun.
    pub(super) fn last_stream(&self) -> u32 {
        self.0.partial_head.last_stream()
    }

    /// Whether the server wants to be rid of the connection.
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

    /// Differs after every step, even one back into the same phase.
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

/// A request that is being answered, or whose client has given up on it.
pub(super) struct HttpAnswerGuard(HttpProgress);

impl Drop for HttpAnswerGuard {
    fn drop(&mut self) {
        if self.0.0.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.enter(HttpPhase::Idle);
        }
    }
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpTimerAction {
    /// HTTP/1: nothing has been under way for a while, so it may rest. Said once.
    Rest,
    /// HTTP/2: it is at rest, and somebody else needs its seat.
    YieldSeat,
    /// It has been in one phase for longer than it may.
    Close,
}

/// Knows when a connection has to end, or may rest.
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
    /// Whether it has been idle for a while.
    is_quiet: bool,
    /// If so, from when on: not from when that was noticed, so that everybody has their turn.
    pub(super) rests_from: Instant,
    /// HTTP/2 rests where it is.
    rest: Option<IdleSeat>,
    /// Resolves when the server closes; gone after that.
    closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpConnectionTimer {
    /// A head has begun, and has until `due`.
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
            rest: None,
            closed,
        }
    }

    /// Whether the connection has to end with what it has begun: the server closes, or somebody else
    /// needs its seat. From then on an idle connection has only a moment left.
    pub(super) fn should_close(&mut self, cx: &mut Context<'_>) -> bool {
        if self.closed.as_mut().is_some_and(|closed| closed.as_mut().poll(cx).is_ready()) {
            self.close();
        }
        self.is_closing()
    }

    /// The same, as far as it is known.
    pub(super) fn is_closing(&self) -> bool {
        self.progress.is_closing()
    }

    /// Gives the connection a moment to end by itself.
    pub(super) fn close(&mut self) {
        self.closed = None;
        self.progress.close();
    }

    /// Resolves when something is to be done. Poll this after the connection, so that it sees the
    /// result.
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
            // Only to look again: what ends an HTTP/2 request does not always wake us.
            while self.sleep.as_mut().poll(cx).is_ready() {
                self.sleep.as_mut().reset(Instant::now() + self.idle_timeout);
            }
            return Poll::Pending;
        }
        // The first head has as much time as the connection had.
        let goes_on = before == HttpPhase::New && phase == HttpPhase::Head;
        if self.seen != stamp && !goes_on {
            self.due = Instant::now() + self.timeout_of(phase);
            if self.due < self.sleep.deadline() {
                self.sleep.as_mut().reset(self.due);
            }
        }
        self.seen = stamp;
        // Being woken too early now and then is cheaper than moving a timer for each request.
        loop {
            if let Some(rest) = &mut self.rest
                && rest.poll_wanted(cx).is_ready()
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
                self.rest = Some(self.seat.idle(self.rests_from));
            }
            self.sleep.as_mut().reset(self.due);
        }
    }

    /// The connection is not at rest any more. Whoever was to have its seat waits for its end.
    fn end_rest(&mut self) {
        self.is_quiet = false;
        if self.rest.take().is_some_and(IdleSeat::end) {
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

/// Long enough for a request that is on its way when the server closes: its client could not be
/// told in time.
pub(super) const CLOSING_GRACE: Duration = Duration::from_secs(1);
