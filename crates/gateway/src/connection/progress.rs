//! What a connection is doing, and for how long it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use tidegate_server::framing::InboundFraming;
use tidegate_server::{IdleSeat, ListenerConfig, QUIET, Seat, SeatUse};
use tokio::time::Instant;

use crate::buffers::{BufferBudget, Http2Buffers};
use crate::upstream::StallTimer;

/// Shared by a connection's socket, its requests and its deadline, which all run in one task or,
/// with HTTP/2, on one worker.
#[derive(Clone, Debug)]
pub(crate) struct GatewayProgress(Arc<GatewayProgressFlags>);

#[derive(Debug)]
struct GatewayProgressFlags {
    /// Requests that are being answered.
    busy: AtomicU32,
    /// Counts steps, so that every step begins a new wait.
    steps: AtomicU32,
    /// Whether some of a head has come, or nothing yet.
    in_head: AtomicBool,
    /// Whether the client does not take what it is sent.
    is_stuck: AtomicBool,
    /// HTTP/1: whether all of a request has come, and nothing of the next.
    is_between: AtomicBool,
    is_h2: AtomicBool,
    /// HTTP/2: the last stream that a request has begun.
    last_stream: AtomicU32,
    work: SeatUse,
    buffers: Arc<Http2Buffers>,
}

/// A request that is being answered, until this is dropped.
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

    /// What waits on the connection, if it is HTTP/2: with HTTP/1 that is one buffer.
    pub(crate) fn buffers(&self) -> Option<Arc<Http2Buffers>> {
        self.0.is_h2.load(Ordering::Relaxed).then(|| Arc::clone(&self.0.buffers))
    }

    /// A request is answered. Whoever was denied last makes way first.
    pub(crate) fn record_answer(&self, is_denial: bool) {
        self.0.work.set_denied(is_denial);
    }

    /// What comes is HTTP/2. It says things that are not requests, and only a request is a step.
    pub(super) fn set_http2(&self) {
        self.0.is_h2.store(true, Ordering::Relaxed);
        self.set_in_head(false);
    }

    /// Bytes have come.
    pub(super) fn record_framing(&self, framing: &InboundFraming) {
        self.0.is_between.store(framing.is_between_requests(), Ordering::Relaxed);
        self.0.last_stream.store(framing.last_stream(), Ordering::Relaxed);
        match self.0.is_h2.load(Ordering::Relaxed) {
            true => self.0.in_head.store(framing.is_in_head(), Ordering::Relaxed),
            false => self.set_in_head(framing.is_in_head()),
        }
    }

    /// The last stream that a request has begun.
    pub(super) fn last_stream(&self) -> u32 {
        self.0.last_stream.load(Ordering::Relaxed)
    }

    /// Some of a head has come, or all of it.
    fn set_in_head(&self, begins: bool) {
        if self.0.in_head.swap(begins, Ordering::Relaxed) != begins {
            self.step();
        }
    }

    /// The client takes what it is sent, or does not.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        // Nearly always nothing changes.
        if is_stuck != self.0.is_stuck.load(Ordering::Relaxed) {
            self.0.is_stuck.store(is_stuck, Ordering::Relaxed);
            self.step();
        }
    }

    fn step(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// What it is doing now.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GatewayConnectionState {
    /// Some of a head has come, or nothing yet.
    Head,
    /// Requests are being answered. Services have timeouts of their own.
    Busy,
    /// The client does not take what it is sent.
    Stuck,
    /// Nothing is under way; but with HTTP/2, something may have come in part.
    Idle { is_h2: bool, in_head: bool },
}

impl ActiveRequest {
    /// What waits on its connection, if it is HTTP/2.
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

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatewayConnectionAction {
    /// HTTP/1: nothing has been under way for a while, so it may rest.
    Rest,
    /// HTTP/2: it is at rest, and somebody else needs its seat.
    Leave,
    /// HTTP/2: the same, but a request has just come. It is the last.
    Drain,
    /// It has been in one state for longer than it may.
    Close,
}

/// Resolves when something is to be done.
#[derive(Debug)]
pub(super) struct GatewayConnectionTimer {
    progress: GatewayProgress,
    seat: Seat,
    seen: u32,
    patience: StallTimer,
    /// HTTP/2: with what has come in part.
    part: StallTimer,
    /// Whether nothing has been under way for a while.
    is_quiet: bool,
    /// If so, from when on: not from when that was noticed, so that everybody has their turn.
    rests_from: Instant,
    /// HTTP/2 rests where it is.
    rest: Option<IdleSeat>,
}

impl GatewayConnectionTimer {
    /// A head has begun, and has until `due`.
    pub(super) fn new(progress: GatewayProgress, seat: Seat, due: Instant) -> Self {
        let seen = progress.0.steps.load(Ordering::Relaxed);
        let (patience, part) = (StallTimer::until(due), StallTimer::default());
        let (is_quiet, rests_from) = (false, due);
        Self { progress, seat, seen, patience, part, is_quiet, rests_from, rest: None }
    }

    pub(super) fn progress(&self) -> GatewayProgress {
        self.progress.clone()
    }

    pub(super) const fn seat(&self) -> &Seat {
        &self.seat
    }

    /// The seat, and from when on it is at rest.
    pub(super) fn rest(self) -> (Seat, Instant) {
        (self.seat, self.rests_from)
    }

    /// To be polled after the connection, so that it sees what has come of that.
    pub(super) fn poll(
        &mut self,
        config: &ListenerConfig,
        cx: &mut Context<'_>,
    ) -> Poll<GatewayConnectionAction> {
        let steps = self.progress.0.steps.load(Ordering::Relaxed);
        if self.seen != steps {
            self.seen = steps;
            self.patience.restart();
            self.is_quiet = false;
            if self.rest.take().is_some_and(IdleSeat::end) {
                return Poll::Ready(GatewayConnectionAction::Drain);
            }
        }
        let over = match self.progress.state() {
            GatewayConnectionState::Busy => return Poll::Pending,
            GatewayConnectionState::Head => self.patience.poll_expired(config.header_timeout, cx),
            GatewayConnectionState::Stuck => self.patience.poll_expired(config.idle_timeout, cx),
            GatewayConnectionState::Idle { is_h2: false, .. } => return self.poll_idle(config, cx),
            GatewayConnectionState::Idle { in_head: false, .. } => {
                self.part.restart();
                return self.poll_idle(config, cx);
            }
            // Neither does it keep the connection open, nor is it cut off at once.
            GatewayConnectionState::Idle { in_head: true, .. } => {
                match self.part.poll_expired(config.header_timeout, cx) {
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
                    .patience
                    .poll_expired(left, cx)
                    .map(|()| GatewayConnectionAction::Close);
            }
            ready!(self.patience.poll_expired(config.idle_timeout.min(QUIET), cx));
            self.is_quiet = true;
            self.rests_from = self.patience.due().unwrap_or_else(Instant::now);
            self.patience.restart();
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

    /// As with TLS: everything is taken at once, and leaves when the client reads.
    #[tokio::test]
    async fn what_was_taken_and_has_not_left_is_under_way() {
        let progress = GatewayProgress::new(SeatUse::default(), &BufferBudget::new(0));
        progress.set_in_head(false);
        let (mut client, server) = duplex(1);
        let mut guard =
            ClientSocket::new(BufWriter::new(server), Bytes::new(), true, progress.clone());
        guard.write_all(b"answer").await.unwrap();
        let flush = poll_fn(|cx| Poll::Ready(Pin::new(&mut guard).poll_flush(cx)));
        assert!(flush.await.is_pending());
        assert_eq!(progress.state(), GatewayConnectionState::Stuck);
        let mut heard = [0; 6];
        let (read, flushed) = tokio::join!(client.read_exact(&mut heard), guard.flush());
        assert!(read.is_ok() && flushed.is_ok());
        assert_eq!(progress.state(), GatewayConnectionState::Idle { is_h2: false, in_head: false });
    }
}
