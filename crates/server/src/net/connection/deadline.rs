//! The timer of an HTTP connection, which ends a connection that stays in one phase for too long.
//!
//! hyper has only one timeout for reading a head, and it also runs while a connection is idle. Here an
//! idle client can stay for a long time, but a slow one cannot. The timer is moved rather than recreated
//! for each request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::bounds::HttpBounds;
use super::progress::{HttpPhase, HttpProgress};
use crate::net::StallTimer;
use crate::net::seats::{IdleSeat, QUIET, Seat};

/// What must be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpTimerAction {
    /// HTTP/1: nothing has been in progress for a while, so the connection can rest. Reported once.
    Rest,
    /// HTTP/2: the connection is at rest, and another client needs its seat.
    YieldSeat,
    /// The connection has been in one phase for too long.
    Close,
}

/// Resolves when a connection has to end or can rest.
pub(crate) struct HttpConnectionTimer {
    progress: HttpProgress,
    pub(super) seat: Seat,
    header_timeout: Duration,
    idle_timeout: Duration,
    /// The activity that the timer has seen.
    seen: u64,
    /// How long the connection has been in its phase.
    phase_timer: StallTimer,
    /// HTTP/2: the partial head that the timer has seen.
    seen_head: u32,
    /// HTTP/2: how long that head has been incomplete. No other frame can arrive meanwhile, so this also
    /// applies while earlier requests are being answered.
    head_timer: StallTimer,
    /// Whether the connection has been idle for at least [`QUIET`].
    is_quiet: bool,
    /// If so, since when. Not when the timer noticed it: seats are taken in the order of these times.
    pub(super) rests_from: Instant,
    /// HTTP/2: set while the connection is at rest. HTTP/1 rests outside of this timer.
    idle_seat: Option<IdleSeat>,
    /// Resolves when the connection must close; `None` after that.
    closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HttpConnectionTimer {
    /// A timer for a connection whose head has begun and must be complete by `due`.
    pub(super) fn new(
        progress: HttpProgress,
        bounds: &HttpBounds,
        seat: Seat,
        due: Instant,
    ) -> Self {
        let closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>> =
            (!seat.must_close()).then(|| Box::pin(seat.wait_must_close()) as _);
        if closed.is_none() {
            progress.close();
        }
        Self {
            seen: progress.activity(),
            progress,
            seat,
            header_timeout: bounds.header_timeout,
            idle_timeout: bounds.idle_timeout,
            phase_timer: StallTimer::until(due),
            seen_head: 0,
            head_timer: StallTimer::default(),
            is_quiet: false,
            rests_from: due,
            idle_seat: None,
            closed,
        }
    }

    /// Whether the connection has to end after the requests in progress: because the server closes, or
    /// another client needs the seat. From then on an idle connection has only [`CLOSING_GRACE`] left.
    pub(crate) fn should_close(&mut self, cx: &mut Context<'_>) -> bool {
        if self.closed.as_mut().is_some_and(|closed| closed.as_mut().poll(cx).is_ready()) {
            self.close();
        }
        self.progress.is_closing()
    }

    /// The same, without checking for news.
    pub(super) fn is_closing(&self) -> bool {
        self.progress.is_closing()
    }

    fn close(&mut self) {
        self.closed = None;
        self.progress.close();
    }

    /// Resolves when something must be done. Poll this after the connection, so that the timer sees the
    /// connection's progress.
    pub(crate) fn poll_action(&mut self, cx: &mut Context<'_>) -> Poll<HttpTimerAction> {
        if self.seen != self.progress.activity() {
            self.is_quiet = false;
            if self.idle_seat.take().is_some_and(IdleSeat::end) {
                // A request has just begun and will be answered, but another client waits for the seat.
                self.close();
            }
            self.restart();
        }
        let phase = self.progress.phase();
        // A client that does not read is perhaps not read either, so the rest of a head may be there.
        if phase != HttpPhase::Stuck && self.poll_partial_head(cx).is_ready() {
            return Poll::Ready(HttpTimerAction::Close);
        }
        let timeout = match phase {
            HttpPhase::Busy => return Poll::Pending,
            HttpPhase::Idle => return self.poll_idle(cx),
            HttpPhase::Head => self.header_timeout,
            HttpPhase::Stuck => self.idle_timeout,
        };
        self.phase_timer.poll_expired(timeout, cx).map(|()| HttpTimerAction::Close)
    }

    fn restart(&mut self) {
        self.seen = self.progress.activity();
        self.phase_timer.restart();
    }

    /// Resolves when the same head has been incomplete for too long.
    fn poll_partial_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let partial_head = self.progress.partial_head();
        if partial_head != self.seen_head {
            self.seen_head = partial_head;
            self.head_timer.restart();
        }
        match partial_head {
            0 => Poll::Pending,
            _ => self.head_timer.poll_expired(self.header_timeout, cx),
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<HttpTimerAction> {
        loop {
            let is_wanted =
                self.idle_seat.as_mut().is_some_and(|seat| seat.poll_wanted(cx).is_ready());
            if is_wanted && self.progress.partial_head() == 0 {
                return Poll::Ready(HttpTimerAction::YieldSeat);
            }
            let is_closing = self.progress.is_closing();
            let span = match self.is_quiet {
                _ if is_closing => CLOSING_GRACE,
                false => self.idle_timeout.min(QUIET),
                true => self.idle_timeout.saturating_sub(QUIET),
            };
            ready!(self.phase_timer.poll_expired(span, cx));
            let is_http2 = self.progress.is_http2();
            if is_closing || (self.is_quiet && !is_http2) {
                return Poll::Ready(HttpTimerAction::Close);
            }
            if self.is_quiet {
                // The client is told, and gets time to react.
                self.close();
                self.restart();
                continue;
            }
            self.is_quiet = true;
            self.rests_from = self.phase_timer.due().unwrap_or_else(Instant::now);
            self.phase_timer.restart();
            if is_http2 {
                self.idle_seat = Some(self.seat.idle(self.rests_from));
            } else if self.progress.is_between() {
                return Poll::Ready(HttpTimerAction::Rest);
            }
        }
    }
}

/// How long an idle client has left when the connection closes. Long enough for a request that is already
/// on its way: its client could not know in time.
pub(super) const CLOSING_GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::io::ReadBuf;
    use tokio::sync::watch;
    use tokio::time::advance;

    use super::*;
    use crate::net::ListenerConfig;
    use crate::net::framing::InboundFraming;
    use crate::net::seats::SeatUse;

    const HEAD: Duration = Duration::from_secs(5);
    const IDLE: Duration = Duration::from_secs(60);
    const MOMENT: Duration = Duration::from_millis(1);

    fn timer() -> (HttpConnectionTimer, HttpProgress, watch::Sender<bool>) {
        let (close, closing) = watch::channel(false);
        let progress = HttpProgress::new(SeatUse::default());
        let bounds = HttpBounds::new(&ListenerConfig {
            header_timeout: HEAD,
            idle_timeout: IDLE,
            ..ListenerConfig::default()
        });
        let due = Instant::now() + HEAD;
        let timer = HttpConnectionTimer::new(progress.clone(), &bounds, Seat::alone(closing), due);
        (timer, progress, close)
    }

    /// Lets time pass, and polls the timer.
    async fn after(span: Duration, timer: &mut HttpConnectionTimer) -> Option<HttpTimerAction> {
        advance(span).await;
        let poll = |cx: &mut Context<'_>| match timer.poll_action(cx) {
            Poll::Ready(action) => Poll::Ready(Some(action)),
            Poll::Pending => Poll::Ready(None),
        };
        std::future::poll_fn(poll).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_head_has_its_time_however_it_drips() {
        let (mut timer, progress, _open) = timer();
        assert_eq!(after(HEAD - MOMENT, &mut timer).await, None);
        let mut framing = InboundFraming::http1();
        receive(b"GET / HT", &mut framing, &progress);
        assert_eq!(after(MOMENT, &mut timer).await, Some(HttpTimerAction::Close));
    }

    #[tokio::test(start_paused = true)]
    async fn http1_rests_after_a_moment_and_ends_after_its_idle_time() {
        let (mut timer, progress, _open) = timer();
        progress.mark_answered();
        assert_eq!(after(Duration::ZERO, &mut timer).await, None);
        assert_eq!(after(QUIET - MOMENT, &mut timer).await, None);
        assert_eq!(after(MOMENT, &mut timer).await, Some(HttpTimerAction::Rest));
        assert_eq!(after(Duration::ZERO, &mut timer).await, None);
        let left = IDLE - QUIET;
        assert_eq!(after(left - MOMENT, &mut timer).await, None);
        assert_eq!(after(MOMENT, &mut timer).await, Some(HttpTimerAction::Close));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_http2_client_is_told_before_the_end() {
        let (mut timer, progress, _open) = timer();
        progress.set_http2();
        drop(progress.begin());
        assert_eq!(after(Duration::ZERO, &mut timer).await, None);
        assert_eq!(after(QUIET, &mut timer).await, None);
        assert_eq!(after(IDLE - QUIET - MOMENT, &mut timer).await, None);
        assert!(!timer.is_closing());
        assert_eq!(after(MOMENT, &mut timer).await, None);
        assert!(timer.is_closing());
        assert_eq!(after(CLOSING_GRACE - MOMENT, &mut timer).await, None);
        assert_eq!(after(MOMENT, &mut timer).await, Some(HttpTimerAction::Close));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_has_no_end_unless_its_client_does_not_read() {
        let (mut timer, progress, _open) = timer();
        let active = progress.begin();
        assert_eq!(after(IDLE * 10, &mut timer).await, None);
        progress.set_stuck(true);
        assert_eq!(after(Duration::ZERO, &mut timer).await, None);
        assert_eq!(after(IDLE - MOMENT, &mut timer).await, None);
        progress.set_stuck(false);
        assert_eq!(after(MOMENT, &mut timer).await, None);
        progress.set_stuck(true);
        drop(active);
        assert_eq!(after(Duration::ZERO, &mut timer).await, None);
        assert_eq!(after(IDLE, &mut timer).await, Some(HttpTimerAction::Close));
    }

    #[tokio::test(start_paused = true)]
    async fn each_partial_http2_head_has_its_time_while_others_are_answered() {
        let (mut timer, progress, _open) = timer();
        progress.set_http2();
        let _active = progress.begin();
        let mut framing = InboundFraming::http2();
        receive(&[0; 24], &mut framing, &progress);
        let frame = b"\0\0\x01\x01\x04\0\0\0\x01\x82";
        for _ in 0..3 {
            receive(&frame[..4], &mut framing, &progress);
            assert_eq!(after(Duration::ZERO, &mut timer).await, None);
            assert_eq!(after(HEAD - MOMENT, &mut timer).await, None);
            receive(&frame[4..], &mut framing, &progress);
            assert_eq!(after(HEAD, &mut timer).await, None);
        }
        receive(&frame[..4], &mut framing, &progress);
        assert_eq!(after(Duration::ZERO, &mut timer).await, None);
        assert_eq!(after(HEAD, &mut timer).await, Some(HttpTimerAction::Close));
    }

    fn receive(bytes: &[u8], framing: &mut InboundFraming, progress: &HttpProgress) {
        let mut read = bytes.to_vec();
        let mut buf = ReadBuf::new(&mut read);
        buf.set_filled(bytes.len());
        framing.follow(&mut buf, 0);
        progress.record_framing(framing);
    }
}
