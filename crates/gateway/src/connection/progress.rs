//! The state of a client's connection, and the timer that ends states that last too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use tidegate_server::framing::InboundFraming;
use tidegate_server::{IdleSeat, ListenerConfig, QUIET, Seat, SeatUse};
use tokio::time::Instant;

use crate::buffers::{BufferBudget, Http2Buffers};
use crate::upstream::StallTimer;

/// The progress of a connection, shared by its socket, its requests and its timer. All of them run in one
/// task or, with HTTP/2, on one worker.
#[derive(Clone, Debug)]
pub(crate) struct GatewayProgress(Arc<GatewayProgressFlags>);

#[derive(Debug)]
struct GatewayProgressFlags {
    /// Requests that are being answered.
    busy: AtomicU32,
    /// Counts state changes: each one restarts the timer.
    steps: AtomicU32,
    /// Whether a head is incomplete, or nothing has been received yet.
    in_head: AtomicBool,
    /// Whether the client does not read its responses.
    is_stuck: AtomicBool,
    /// HTTP/1: whether a request was received completely, and nothing of the next one.
    is_between: AtomicBool,
    is_h2: AtomicBool,
    /// HTTP/2: the last stream opened by a request.
    last_stream: AtomicU32,
    work: SeatUse,
    buffers: Arc<Http2Buffers>,
}

/// A request that is being answered; it ends on drop.
#[derive(Debug)]
pub(crate) struct ActiveRequest(GatewayProgress);

impl GatewayProgress {
    pub(crate) fn new(work: SeatUse, budget: &Arc<BufferBudget>) -> Self {
        let progress = Self(Arc::new(GatewayProgressFlags {
            busy: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            in_head: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            is_between: AtomicBool::new(false),
            is_h2: AtomicBool::new(false),
            last_stream: AtomicU32::new(0),
            work,
            buffers: Arc::new(Http2Buffers::new(Arc::clone(budget))),
        }));
        progress.set_in_head(true);
        progress
    }

    pub(crate) fn begin(&self) -> ActiveRequest {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        self.0.work.mark_served();
        self.step();
        ActiveRequest(self.clone())
    }

    /// The buffered data of the connection, if it is HTTP/2. HTTP/1 has only one bounded buffer.
    pub(crate) fn buffers(&self) -> Option<Arc<Http2Buffers>> {
        self.0.is_h2.load(Ordering::Relaxed).then(|| Arc::clone(&self.0.buffers))
    }

    /// Records whether the last request was denied: such connections are closed first if seats are short.
    pub(crate) fn record_answer(&self, is_denial: bool) {
        self.0.work.set_denied(is_denial);
    }

    /// The client speaks HTTP/2. It has frames besides requests, and only a request counts as a step.
    pub(super) fn set_http2(&self) {
        self.0.is_h2.store(true, Ordering::Relaxed);
        self.set_in_head(false);
    }

    /// Records the framing after bytes were received.
    pub(super) fn record_framing(&self, framing: &InboundFraming) {
        self.0.is_between.store(framing.is_between_requests(), Ordering::Relaxed);
        self.0.last_stream.store(framing.last_stream(), Ordering::Relaxed);
        match self.0.is_h2.load(Ordering::Relaxed) {
            true => self.0.in_head.store(framing.is_in_head(), Ordering::Relaxed),
            false => self.set_in_head(framing.is_in_head()),
        }
    }

    /// The last stream opened by a request.
    pub(super) fn last_stream(&self) -> u32 {
        self.0.last_stream.load(Ordering::Relaxed)
    }

    /// A head has begun, or is complete.
    fn set_in_head(&self, begins: bool) {
        if self.0.in_head.swap(begins, Ordering::Relaxed) != begins {
            self.step();
        }
    }

    /// The client does not read its responses, or reads them again.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        // Nearly always nothing changes, and nothing is written.
        if is_stuck != self.0.is_stuck.load(Ordering::Relaxed) {
            self.0.is_stuck.store(is_stuck, Ordering::Relaxed);
            self.step();
        }
    }

    fn step(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn state(&self) -> GatewayConnectionState {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let (in_head, is_h2) = (is(&self.0.in_head), is(&self.0.is_h2));
        match self.0.busy.load(Ordering::Relaxed) {
            0 if in_head && !is_h2 => GatewayConnectionState::Head,
            0 if is(&self.0.is_stuck) => GatewayConnectionState::Stuck,
            0 => GatewayConnectionState::Idle { is_h2, in_head },
            _ if is(&self.0.is_stuck) => GatewayConnectionState::Stuck,
            _ => GatewayConnectionState::Busy,
        }
    }
}

/// The state of a client's connection; each has its own timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GatewayConnectionState {
    /// HTTP/1: a head is incomplete, or nothing has been received yet.
    Head,
    /// Requests are being answered. Services have timeouts of their own.
    Busy,
    /// The client does not read its responses.
    Stuck,
    /// No request is under way. With HTTP/2, a frame or head can be incomplete (`in_head`).
    Idle { is_h2: bool, in_head: bool },
}

impl ActiveRequest {
    /// The buffered data of its connection, if that is HTTP/2.
    pub(crate) fn buffers(&self) -> Option<Arc<Http2Buffers>> {
        self.0.buffers()
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.step();
    }
}

/// The action that the timer demands for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatewayConnectionAction {
    /// HTTP/1: no request has been under way for a while, so its buffers can be released.
    Rest,
    /// HTTP/2: it is idle, and another client needs its seat.
    Leave,
    /// HTTP/2: another client needs its seat, but a request has just been received. It is the last one.
    Drain,
    /// It has been in one state for too long.
    Close,
}

/// The timer of a client's connection. It resolves to the action that is due.
#[derive(Debug)]
pub(super) struct GatewayConnectionTimer {
    progress: GatewayProgress,
    seat: Seat,
    seen: u32,
    state_timer: StallTimer,
    /// HTTP/2: how long a frame or head has been incomplete.
    partial_timer: StallTimer,
    /// Whether no request has been under way for a while.
    is_quiet: bool,
    /// If so, since when. This is not the time when it was noticed, so that seats are freed in order.
    rests_from: Instant,
    /// HTTP/2: the idle seat. Unlike HTTP/1, an idle connection keeps its buffers.
    rest: Option<IdleSeat>,
}

impl GatewayConnectionTimer {
    /// A timer for a connection whose first head must be complete at `due`.
    pub(super) fn new(progress: GatewayProgress, seat: Seat, due: Instant) -> Self {
        let seen = progress.0.steps.load(Ordering::Relaxed);
        let (state_timer, partial_timer) = (StallTimer::until(due), StallTimer::default());
        let (is_quiet, rests_from) = (false, due);
        Self { progress, seat, seen, state_timer, partial_timer, is_quiet, rests_from, rest: None }
    }

    pub(super) fn progress(&self) -> GatewayProgress {
        self.progress.clone()
    }

    pub(super) const fn seat(&self) -> &Seat {
        &self.seat
    }

    /// The seat, and since when it is idle.
    pub(super) fn rest(self) -> (Seat, Instant) {
        (self.seat, self.rests_from)
    }

    /// Must be polled after the connection, so that it sees the new state.
    pub(super) fn poll(
        &mut self,
        config: &ListenerConfig,
        cx: &mut Context<'_>,
    ) -> Poll<GatewayConnectionAction> {
        let steps = self.progress.0.steps.load(Ordering::Relaxed);
        if self.seen != steps {
            self.seen = steps;
            self.state_timer.restart();
            self.is_quiet = false;
            if self.rest.take().is_some_and(IdleSeat::end) {
                return Poll::Ready(GatewayConnectionAction::Drain);
            }
        }
        let over = match self.progress.state() {
            GatewayConnectionState::Busy => return Poll::Pending,
            GatewayConnectionState::Head => {
                self.state_timer.poll_expired(config.header_timeout, cx)
            }
            GatewayConnectionState::Stuck => self.state_timer.poll_expired(config.idle_timeout, cx),
            GatewayConnectionState::Idle { is_h2: false, .. } => return self.poll_idle(config, cx),
            GatewayConnectionState::Idle { in_head: false, .. } => {
                self.partial_timer.restart();
                return self.poll_idle(config, cx);
            }
            // An incomplete head does not keep the connection open, but has its own timeout.
            GatewayConnectionState::Idle { in_head: true, .. } => {
                match self.partial_timer.poll_expired(config.header_timeout, cx) {
                    Poll::Pending => return self.poll_idle(config, cx),
                    over => over,
                }
            }
        };
        over.map(|()| GatewayConnectionAction::Close)
    }

    fn poll_idle(
        &mut self,
        config: &ListenerConfig,
        cx: &mut Context<'_>,
    ) -> Poll<GatewayConnectionAction> {
        loop {
            let is_wanted = self.rest.as_mut().is_some_and(|rest| rest.poll_wanted(cx).is_ready());
            if is_wanted && !self.progress.0.in_head.load(Ordering::Relaxed) {
                return Poll::Ready(GatewayConnectionAction::Leave);
            }
            if self.is_quiet {
                let left = config.idle_timeout.saturating_sub(QUIET);
                return self
                    .state_timer
                    .poll_expired(left, cx)
                    .map(|()| GatewayConnectionAction::Close);
            }
            ready!(self.state_timer.poll_expired(config.idle_timeout.min(QUIET), cx));
            self.is_quiet = true;
            self.rests_from = self.state_timer.due().unwrap_or_else(Instant::now);
            self.state_timer.restart();
            if self.progress.0.is_h2.load(Ordering::Relaxed) {
                self.rest = Some(self.seat.idle(self.rests_from));
            } else if self.progress.0.is_between.load(Ordering::Relaxed) {
                return Poll::Ready(GatewayConnectionAction::Rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter, duplex};

    use super::super::client_socket::ClientSocket;
    use super::*;

    /// Like TLS, the writer accepts everything immediately, and sends it when the client reads.
    #[tokio::test]
    async fn what_was_taken_and_has_not_left_is_under_way() {
        let progress = GatewayProgress::new(SeatUse::default(), &BufferBudget::new(0));
        progress.set_in_head(false);
        let (mut client, server) = duplex(1);
        let mut socket =
            ClientSocket::new(BufWriter::new(server), Bytes::new(), true, progress.clone());
        socket.write_all(b"answer").await.unwrap();
        let flush = poll_fn(|cx| Poll::Ready(Pin::new(&mut socket).poll_flush(cx)));
        assert!(flush.await.is_pending());
        assert_eq!(progress.state(), GatewayConnectionState::Stuck);
        let mut received = [0; 6];
        let (read, flushed) = tokio::join!(client.read_exact(&mut received), socket.flush());
        assert!(read.is_ok() && flushed.is_ok());
        assert_eq!(progress.state(), GatewayConnectionState::Idle { is_h2: false, in_head: false });
    }
}
