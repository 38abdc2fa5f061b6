//! Seats: how many connections a listener has at a time, and which are evicted when all are taken.
//!
//! A connection without a request in progress is idle, and marks its seat so. A newcomer that finds no
//! seat gets one from the client that has the most (`table.rs`). So a client with back-to-back requests
//! never pays for the bookkeeping, and no client can keep all seats for itself.

mod client_network;
mod client_seats;
mod eviction;
mod queue;
mod request;
mod seat_use;
mod table;

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::eviction::SeatEviction;
use self::queue::SeatGrant;
use self::table::{SeatRules, SeatTable};
use crate::net::ListenerConfig;
use crate::net::accept::ClosingSignal;

pub use self::client_network::ClientNetwork;
pub(crate) use self::request::{SeatGuard, SeatOutcome, SeatRequest};
pub(crate) use self::seat_use::SeatUse;

/// The seats of one listener, for the connections of all workers.
pub(crate) struct SeatPool {
    size: usize,
    seating: Mutex<SeatTable>,
    /// Whether an address is a trusted proxy, which acts for many clients.
    speaks_for_many: OnceLock<Box<dyn Fn(IpAddr) -> bool + Send + Sync>>,
    evictions: [AtomicU64; EvictionKind::ALL.len()],
    refused: AtomicU64,
}

/// The state of a connection when it was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionKind {
    /// It was idle.
    Silent,
    /// Its request was incomplete.
    Asking,
    /// Its request was being answered.
    Answered,
}

impl EvictionKind {
    pub(crate) const ALL: [Self; 3] = [Self::Silent, Self::Asking, Self::Answered];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Asking => "asking",
            Self::Answered => "answered",
        }
    }
}

impl SeatPool {
    pub(crate) fn new(config: &ListenerConfig) -> Self {
        let size = config.max_connections;
        let tenth = (size / 10).max(LEAST_SHARE);
        let rules = SeatRules {
            share: config.max_connections_per_client.unwrap_or(tenth),
            is_for_all: config.max_connections_per_client.is_some(),
            max_waiting: tenth,
        };
        Self {
            size,
            seating: Mutex::new(SeatTable::new(size, rules)),
            speaks_for_many: OnceLock::new(),
            evictions: Default::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Sets the check for trusted proxies, which act for many clients. Only the first call counts.
    pub(crate) fn set_trusted_proxies(
        &self,
        speaks_for_many: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) {
        let _ = self.speaks_for_many.set(Box::new(speaks_for_many));
    }

    /// How many seats are taken.
    pub(crate) fn taken(&self) -> usize {
        self.size.saturating_sub(self.seating.lock().free)
    }

    /// How many connections were closed in favour of others.
    pub(crate) fn evictions(&self, kind: EvictionKind) -> u64 {
        self.evictions.get(kind as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many connections found neither a seat nor a place in the queue.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Requests a seat for a client: it gets a seat, a place in the queue, or neither.
    pub(crate) fn request_seat(self: &Arc<Self>, address: Option<IpAddr>) -> SeatOutcome {
        let mut seating = self.seating.lock();
        if let Some((number, work)) = seating.take_free(address) {
            drop(seating);
            return SeatOutcome::Seated(SeatGuard { pool: Arc::clone(self), number, work });
        }
        let (seat, granted) = oneshot::channel();
        match seating.queue(address, seat) {
            Some(number) => {
                drop(seating);
                SeatOutcome::Queued(SeatRequest { pool: Arc::clone(self), number, granted })
            }
            None => {
                drop(seating);
                self.refused.fetch_add(1, Ordering::Relaxed);
                SeatOutcome::Refused
            }
        }
    }

    /// Evicts a connection for the waiter with this number. Returns false if none can be evicted.
    fn evict_one(&self, waiting: u64) -> bool {
        let trusted = |address| self.speaks_for_many.get().is_some_and(|trusts| trusts(address));
        let eviction = self.seating.lock().evict_for(waiting, &trusted);
        let kind = match &eviction {
            None => return false,
            Some(SeatEviction::Silent(_)) => Some(EvictionKind::Silent),
            Some(SeatEviction::Asking(_)) => Some(EvictionKind::Asking),
            Some(SeatEviction::Answered(_)) => Some(EvictionKind::Answered),
            Some(SeatEviction::Late(_)) => None,
        };
        if let Some(count) = kind.and_then(|kind| self.evictions.get(kind as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match eviction {
            Some(SeatEviction::Silent(waker)) => waker.wake(),
            Some(
                SeatEviction::Asking(end) | SeatEviction::Answered(end) | SeatEviction::Late(end),
            ) => end.abort(),
            None => {}
        }
        true
    }

    /// Sets the handle that ends a connection, whatever it does.
    pub(crate) fn set_abort(&self, number: u64, end: AbortHandle) {
        self.seating.lock().set_abort(number, end);
    }

    /// Hands a free seat to a waiter. If that waiter has gone, the next one gets it.
    fn hand_over(&self, mut grant: Option<SeatGrant>) {
        while let Some(SeatGrant { number, work, to }) = grant {
            if to.send((number, work)).is_ok() {
                return;
            }
            grant = self.seating.lock().vacate(number);
        }
    }
}

impl fmt::Debug for SeatPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeatPool").field("size", &self.size).finish_non_exhaustive()
    }
}

/// A connection's seat at its listener. Dropping it frees the seat.
#[derive(Debug)]
pub struct Seat {
    guard: SeatGuard,
    closing: ClosingSignal,
    is_notified: bool,
}

impl Seat {
    pub(crate) const fn new(closing: ClosingSignal, guard: SeatGuard) -> Self {
        Self { guard, closing, is_notified: false }
    }

    /// The only seat of a pool of its own.
    #[cfg(any(test, fuzzing))]
    #[allow(clippy::panic, reason = "for tests")]
    pub(crate) fn alone(closing: ClosingSignal) -> Self {
        let pool = Arc::new(SeatPool::new(&ListenerConfig {
            max_connections: 1,
            ..ListenerConfig::default()
        }));
        let SeatOutcome::Seated(guard) = pool.request_seat(None) else { panic!("a seat") };
        Self::new(closing, guard)
    }

    /// The flags with which the connection reports the state of its requests.
    pub(crate) fn work(&self) -> SeatUse {
        self.guard.work.clone()
    }

    /// Whether the connection must close after the request in progress.
    pub(crate) fn must_close(&self) -> bool {
        self.is_notified || *self.closing.borrow()
    }

    /// Marks the connection as notified that it must close.
    pub(crate) const fn mark_notified(&mut self) {
        self.is_notified = true;
    }

    /// Whether the connection was notified that it must close.
    pub(crate) const fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// Resolves when the connection must close after the request in progress.
    pub(crate) fn wait_must_close(&self) -> impl Future<Output = ()> + Send + 'static {
        let closing = (!self.is_notified).then(|| self.closing.clone());
        async move {
            if let Some(mut closing) = closing {
                drop(closing.wait_for(|closing| *closing).await);
            }
        }
    }

    pub(crate) fn closing(&self) -> ClosingSignal {
        self.closing.clone()
    }

    /// Marks the connection as idle for as long as the result exists. The seat can be taken away after
    /// `from`.
    pub(crate) fn idle(&self, from: Instant) -> IdleSeat {
        let SeatGuard { pool, number, .. } = &self.guard;
        pool.seating.lock().mark_idle(*number, from);
        IdleSeat { pool: Arc::clone(pool), number: *number, is_over: false }
    }
}

/// The seat of an idle connection.
#[derive(Debug)]
pub(crate) struct IdleSeat {
    pool: Arc<SeatPool>,
    number: u64,
    is_over: bool,
}

impl IdleSeat {
    /// Resolves when the seat was given to another connection: this one must close.
    pub(crate) fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.pool.seating.lock().is_wanted(self.number, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ends the idle period: a request has begun. Returns whether the connection was evicted meanwhile,
    /// and must close after this request.
    pub(crate) fn end(mut self) -> bool {
        self.is_over = true;
        self.pool.seating.lock().mark_busy(self.number)
    }
}

impl Drop for IdleSeat {
    fn drop(&mut self) {
        if !self.is_over {
            self.pool.seating.lock().mark_busy(self.number);
        }
    }
}

/// A connection can be evicted as idle after it had no request in progress for this long.
pub(crate) const QUIET: Duration = Duration::from_millis(100);
/// How long a new connection has for its first request, even when all seats are taken.
pub const GRACE: Duration = Duration::from_secs(1);
/// The share of a client, however few seats there are.
const LEAST_SHARE: usize = 8;

#[cfg(test)]
mod tests;
