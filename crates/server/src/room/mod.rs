//! Room for connections: how many a listener has at a time, and who makes way when it is full.
//!
//! A connection on which nothing is under way is at rest, and says so. Whoever comes and finds no seat
//! gets one from the client that has the most (`seating.rs`). So a client that asks one thing after the
//! other never tells anybody anything, and no client can keep all seats for itself.

mod client;
mod group;
mod queue;
mod seat_use;
mod seating;
mod ticket;

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

use self::queue::Grant;
use self::seating::{Leaver, Rules, Seating};
use crate::Config;
use crate::accept::Closing;

pub use self::client::ClientNetwork;
pub use self::seat_use::SeatUse;
pub(crate) use self::ticket::{Entered, Hold, Ticket};

/// The seats of one listener, for the connections of all workers.
pub(crate) struct Room {
    size: usize,
    seating: Mutex<Seating>,
    /// Knows addresses that speak for many clients: proxies that are trusted.
    speaks_for_many: OnceLock<Box<dyn Fn(IpAddr) -> bool + Send + Sync>>,
    made_way: [AtomicU64; MadeWay::ALL.len()],
    refused: AtomicU64,
}

/// What a connection was doing when it had to make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeWay {
    /// Nothing.
    Silent,
    /// It had not finished asking.
    Asking,
    /// It was being answered.
    Answered,
}

impl MadeWay {
    pub(crate) const ALL: [Self; 3] = [Self::Silent, Self::Asking, Self::Answered];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Asking => "asking",
            Self::Answered => "answered",
        }
    }
}

impl Room {
    pub(crate) fn new(config: &Config) -> Self {
        let size = config.max_connections;
        let tenth = (size / 10).max(LEAST_SHARE);
        let rules = Rules {
            share: config.max_connections_per_client.unwrap_or(tenth),
            is_for_all: config.max_connections_per_client.is_some(),
            max_waiting: tenth,
        };
        Self {
            size,
            seating: Mutex::new(Seating::new(size, rules)),
            speaks_for_many: OnceLock::new(),
            made_way: Default::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Whom to ask which addresses speak for many clients. Counts once.
    pub(crate) fn trust(&self, speaks_for_many: impl Fn(IpAddr) -> bool + Send + Sync + 'static) {
        let _ = self.speaks_for_many.set(Box::new(speaks_for_many));
    }

    /// How many seats are taken.
    pub(crate) fn taken(&self) -> usize {
        self.size.saturating_sub(self.seating.lock().free)
    }

    /// How many connections were closed so that others could be let in.
    pub(crate) fn made_way(&self, how: MadeWay) -> u64 {
        self.made_way.get(how as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many found neither a seat nor a place in the queue.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A seat for a client, a place in the queue, or nothing.
    pub(crate) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Entered {
        let mut seating = self.seating.lock();
        if let Some((number, work)) = seating.take_free(address) {
            drop(seating);
            return Entered::Seated(Hold { room: Arc::clone(self), number, work });
        }
        let (seat, granted) = oneshot::channel();
        match seating.queue(address, seat) {
            Some(number) => {
                drop(seating);
                Entered::Queued(Ticket { room: Arc::clone(self), number, granted })
            }
            None => {
                drop(seating);
                self.refused.fetch_add(1, Ordering::Relaxed);
                Entered::Refused
            }
        }
    }

    /// Has somebody leave for who waits under this number. Returns whether there is somebody.
    fn ask_one_to_leave(&self, waiting: u64) -> bool {
        let trusted = |address| self.speaks_for_many.get().is_some_and(|trusts| trusts(address));
        let leaver = self.seating.lock().ask(waiting, &trusted);
        let how = match &leaver {
            None => return false,
            Some(Leaver::Silent(_)) => Some(MadeWay::Silent),
            Some(Leaver::Asking(_)) => Some(MadeWay::Asking),
            Some(Leaver::Answered(_)) => Some(MadeWay::Answered),
            Some(Leaver::Late(_)) => None,
        };
        if let Some(count) = how.and_then(|how| self.made_way.get(how as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match leaver {
            Some(Leaver::Silent(waker)) => waker.wake(),
            Some(Leaver::Asking(end) | Leaver::Answered(end) | Leaver::Late(end)) => end.abort(),
            None => {}
        }
        true
    }

    /// How to end a connection, whatever it does.
    pub(crate) fn ends_by(&self, number: u64, end: AbortHandle) {
        self.seating.lock().ends_by(number, end);
    }

    /// Hands a seat over. Whoever has waited for it may be gone by now.
    fn hand_over(&self, mut grant: Option<Grant>) {
        while let Some(Grant { number, work, to }) = grant {
            if to.send((number, work)).is_ok() {
                return;
            }
            grant = self.seating.lock().leave(number);
        }
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("size", &self.size).finish_non_exhaustive()
    }
}

/// A connection's seat in the room of its listener. It is free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    hold: Hold,
    closing: Closing,
    is_told: bool,
}

impl Seat {
    pub(crate) const fn new(closing: Closing, hold: Hold) -> Self {
        Self { hold, closing, is_told: false }
    }

    /// In a room of its own.
    #[cfg(any(test, fuzzing))]
    #[allow(clippy::panic, reason = "for tests")]
    pub(crate) fn alone(closing: Closing) -> Self {
        let room = Arc::new(Room::new(&Config { max_connections: 1, ..Config::default() }));
        let Entered::Seated(hold) = room.enter(None) else { panic!("a seat") };
        Self::new(closing, hold)
    }

    /// Where to tell what is done with the seat.
    pub fn work(&self) -> SeatUse {
        self.hold.work.clone()
    }

    /// Whether the connection has to end with what it has begun.
    pub fn is_told(&self) -> bool {
        self.is_told || *self.closing.borrow()
    }

    /// From now on it is so.
    pub(crate) const fn tell(&mut self) {
        self.is_told = true;
    }

    /// Whether it knows.
    pub(crate) const fn was_told(&self) -> bool {
        self.is_told
    }

    /// Resolves when the connection has to end with what it has begun.
    pub fn told(&self) -> impl Future<Output = ()> + Send + 'static {
        let closing = (!self.is_told).then(|| self.closing.clone());
        async move {
            if let Some(mut closing) = closing {
                drop(closing.wait_for(|closing| *closing).await);
            }
        }
    }

    pub(crate) fn closing(&self) -> Closing {
        self.closing.clone()
    }

    /// Nothing is under way on the connection as long as the result exists. From `from` on its seat
    /// may be wanted.
    pub fn rest(&self, from: Instant) -> Rest {
        let Hold { room, number, .. } = &self.hold;
        room.seating.lock().rest(*number, from);
        Rest { room: Arc::clone(room), number: *number, is_over: false }
    }
}

/// A connection at rest.
#[derive(Debug)]
pub struct Rest {
    room: Arc<Room>,
    number: u64,
    is_over: bool,
}

impl Rest {
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
        self.room.seating.lock().stir(self.number)
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if !self.is_over {
            self.room.seating.lock().stir(self.number);
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
