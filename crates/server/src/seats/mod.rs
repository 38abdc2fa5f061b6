//! Room for connections: how many a listener has at a time, and who makes way when it is full.
//!
//! A connection on which nothing is under way is at rest, and says so. Whoever comes and finds no seat
//! gets one from the client that has the most (`seating.rs`). So a client that asks one thing after the
//! other never tells anybody anything, and no client can keep all seats for itself.

mod client_network;
mod client_seats;
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

use self::queue::SeatGrant;
use self::table::{SeatEviction, SeatRules, SeatTable};
use crate::ListenerConfig;
use crate::accept::ClosingSignal;

pub use self::client_network::ClientNetwork;
pub(crate) use self::request::{SeatGuard, SeatOutcome, SeatRequest};
pub use self::seat_use::SeatUse;

/// The seats of one listener, for the connections of all workers.
pub(crate) struct SeatPool {
    size: usize,
    seating: Mutex<SeatTable>,
    /// Knows addresses that speak for many clients: proxies that are trusted.
    speaks_for_many: OnceLock<Box<dyn Fn(IpAddr) -> bool + Send + Sync>>,
    evictions: [AtomicU64; EvictionKind::ALL.len()],
    refused: AtomicU64,
}

/// What a connection was doing when it had to make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionKind {
    /// Nothing.
    Silent,
    /// It had not finished asking.
    Asking,
    /// It was being answered.
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

    /// Whom to ask which addresses speak for many clients. Counts once.
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

    /// How many connections were closed so that others could be let in.
    pub(crate) fn evictions(&self, how: EvictionKind) -> u64 {
        self.evictions.get(how as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many found neither a seat nor a place in the queue.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A seat for a client, a place in the queue, or nothing.
    pub(crate) fn request_seat(self: &Arc<Self>, address: Option<IpAddr>) -> SeatOutcome {
        let mut seating = self.seating.lock();
        if let Some((number, work)) = seating.take_free(address) {
            drop(seating);
            return SeatOutcome::Seated(SeatGuard { room: Arc::clone(self), number, work });
        }
        let (seat, granted) = oneshot::channel();
        match seating.queue(address, seat) {
            Some(number) => {
                drop(seating);
                SeatOutcome::Queued(SeatRequest { room: Arc::clone(self), number, granted })
            }
            None => {
                drop(seating);
                self.refused.fetch_add(1, Ordering::Relaxed);
                SeatOutcome::Refused
            }
        }
    }

    /// Has somebody leave for who waits under this number. Returns whether there is somebody.
    fn evict_one(&self, waiting: u64) -> bool {
        let trusted = |address| self.speaks_for_many.get().is_some_and(|trusts| trusts(address));
        let leaver = self.seating.lock().evict_for(waiting, &trusted);
        let how = match &leaver {
            None => return false,
            Some(SeatEviction::Silent(_)) => Some(EvictionKind::Silent),
            Some(SeatEviction::Asking(_)) => Some(EvictionKind::Asking),
            Some(SeatEviction::Answered(_)) => Some(EvictionKind::Answered),
            Some(SeatEviction::Late(_)) => None,
        };
        if let Some(count) = how.and_then(|how| self.evictions.get(how as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match leaver {
            Some(SeatEviction::Silent(waker)) => waker.wake(),
            Some(
                SeatEviction::Asking(end) | SeatEviction::Answered(end) | SeatEviction::Late(end),
            ) => end.abort(),
            None => {}
        }
        true
    }

    /// How to end a connection, whatever it does.
    pub(crate) fn set_abort(&self, number: u64, end: AbortHandle) {
        self.seating.lock().set_abort(number, end);
    }

    /// Hands a seat over. Whoever has waited for it may be gone by now.
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

/// A connection's seat in the room of its listener. It is free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    hold: SeatGuard,
    closing: ClosingSignal,
    is_notified: bool,
}

impl Seat {
    pub(crate) const fn new(closing: ClosingSignal, hold: SeatGuard) -> Self {
        Self { hold, closing, is_notified: false }
    }

    /// In a room of its own.
    #[cfg(any(test, fuzzing))]
    #[allow(clippy::panic, reason = "for tests")]
    pub(crate) fn alone(closing: ClosingSignal) -> Self {
        let room = Arc::new(SeatPool::new(&ListenerConfig {
            max_connections: 1,
            ..ListenerConfig::default()
        }));
        let SeatOutcome::Seated(hold) = room.request_seat(None) else { panic!("a seat") };
        Self::new(closing, hold)
    }

    /// Where to tell what is done with the seat.
    pub fn work(&self) -> SeatUse {
        self.hold.work.clone()
    }

    /// Whether the connection has to end with what it has begun.
    pub fn must_close(&self) -> bool {
        self.is_notified || *self.closing.borrow()
    }

    /// From now on it is so.
    pub(crate) const fn mark_notified(&mut self) {
        self.is_notified = true;
    }

    /// Whether it knows.
    pub(crate) const fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// Resolves when the connection has to end with what it has begun.
    pub fn wait_must_close(&self) -> impl Future<Output = ()> + Send + 'static {
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

    /// Nothing is under way on the connection as long as the result exists. From `from` on its seat
    /// may be wanted.
    pub fn idle(&self, from: Instant) -> IdleSeat {
        let SeatGuard { room, number, .. } = &self.hold;
        room.seating.lock().mark_idle(*number, from);
        IdleSeat { room: Arc::clone(room), number: *number, is_over: false }
    }
}

/// A connection at rest.
#[derive(Debug)]
pub struct IdleSeat {
    room: Arc<SeatPool>,
    number: u64,
    is_over: bool,
}

impl IdleSeat {
    /// Resolves when somebody else needs the seat. Then it is theirs: the connection has to end.
    pub fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.room.seating.lock().is_wanted(self.number, cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Something is under way again. Returns whether the seat is somebody else's, who waits for the end
    /// of what has just begun.
    pub fn end(mut self) -> bool {
        self.is_over = true;
        self.room.seating.lock().mark_busy(self.number)
    }
}

impl Drop for IdleSeat {
    fn drop(&mut self) {
        if !self.is_over {
            self.room.seating.lock().mark_busy(self.number);
        }
    }
}

/// A connection is at rest when nothing was under way for this long.
pub const QUIET: Duration = Duration::from_millis(100);
/// How long a client may take before it asks for the first time, even when seats are short.
pub const GRACE: Duration = Duration::from_secs(1);
/// However small a room is, a client keeps this many.
const LEAST_SHARE: usize = 8;

#[cfg(test)]
mod tests;
