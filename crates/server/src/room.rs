//! Room for connections: how many a listener has at a time, and who makes way when it is full.
//!
//! A connection on which nothing is under way is at rest, and says so. Whoever comes and finds no seat
//! gets the seat of the one that has rested for longest. Nobody has to leave who is being answered, or
//! was so a moment ago: so a client that asks one thing after the other never tells anybody anything.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::accept::Closing;

/// The seats of one listener, for the connections of all workers.
#[derive(Debug)]
pub(crate) struct Room {
    size: usize,
    seats: Arc<Semaphore>,
    /// Who would have to leave, in this order, and how to wake them.
    resting: Mutex<BTreeMap<Turn, Waker>>,
    arrivals: AtomicU64,
    made_way: AtomicU64,
}

/// From when on somebody rests, and who they are.
type Turn = (Instant, u64);

impl Room {
    pub(crate) fn new(seats: usize) -> Self {
        let size = seats.min(Semaphore::MAX_PERMITS);
        Self {
            size,
            seats: Arc::new(Semaphore::new(size)),
            resting: Mutex::default(),
            arrivals: AtomicU64::new(0),
            made_way: AtomicU64::new(0),
        }
    }

    /// How many seats are taken.
    pub(crate) fn taken(&self) -> usize {
        self.size.saturating_sub(self.seats.available_permits())
    }

    /// How many connections were closed so that others could be let in.
    pub(crate) fn made_way(&self) -> u64 {
        self.made_way.load(Ordering::Relaxed)
    }

    /// A free seat, if there is one.
    pub(crate) fn free(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    /// A seat, however long that takes. `is_asked` says whether somebody was asked to make way, and
    /// has to be the same for one newcomer as long as it waits.
    pub(crate) async fn seat(&self, is_asked: &mut bool) -> Option<OwnedSemaphorePermit> {
        loop {
            *is_asked = *is_asked || self.ask_one_to_leave();
            let patience = if *is_asked { LEAVING } else { LOOK_AGAIN };
            match timeout(patience, Arc::clone(&self.seats).acquire_owned()).await {
                // Nobody ever closes the room.
                Ok(seat) => return seat.ok(),
                Err(_) => *is_asked = false,
            }
        }
    }

    /// Asks whoever has rested for longest. Returns whether there is somebody.
    fn ask_one_to_leave(&self) -> bool {
        let mut resting = self.resting.lock();
        let first = resting.first_entry().filter(|first| first.key().0 <= Instant::now());
        let Some(waker) = first.map(OccupiedEntry::remove) else { return false };
        drop(resting);
        self.made_way.fetch_add(1, Ordering::Relaxed);
        waker.wake();
        true
    }
}

/// A connection's seat in the room of its listener. It is free again when this is dropped.
pub struct Seat {
    room: Arc<Room>,
    number: u64,
    closing: Closing,
    is_told: bool,
    _seat: OwnedSemaphorePermit,
}

impl Seat {
    pub(crate) fn new(room: &Arc<Room>, closing: Closing, seat: OwnedSemaphorePermit) -> Self {
        let number = room.arrivals.fetch_add(1, Ordering::Relaxed);
        Self { room: Arc::clone(room), number, closing, is_told: false, _seat: seat }
    }

    /// In a room of its own.
    #[cfg(any(test, fuzzing))]
    #[allow(clippy::expect_used, reason = "for tests")]
    pub(crate) fn alone(closing: Closing) -> Self {
        let room = Arc::new(Room::new(1));
        let seat = room.free().expect("a seat");
        Self::new(&room, closing, seat)
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
        let turn = (from, self.number);
        self.room.resting.lock().insert(turn, Waker::noop().clone());
        Rest { room: Arc::clone(&self.room), turn, is_over: false }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A connection at rest.
#[derive(Debug)]
pub struct Rest {
    room: Arc<Room>,
    turn: Turn,
    is_over: bool,
}

impl Rest {
    /// Resolves when somebody else needs the seat. Then it is theirs: the connection has to end.
    pub fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.room.resting.lock().get_mut(&self.turn) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => return Poll::Ready(()),
        }
        Poll::Pending
    }

    /// Something is under way again. Returns whether the seat is somebody else's, who waits for the end
    /// of what has just begun.
    pub fn end(mut self) -> bool {
        self.is_over = true;
        self.room.resting.lock().remove(&self.turn).is_none()
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if !self.is_over {
            self.room.resting.lock().remove(&self.turn);
        }
    }
}

/// A connection is at rest when nothing was under way for this long.
pub const QUIET: Duration = Duration::from_millis(100);
/// How long a client may take before it asks for the first time, even when seats are short.
pub const GRACE: Duration = Duration::from_secs(1);
/// How long somebody may take to leave before another one is asked.
const LEAVING: Duration = Duration::from_secs(1);
/// How often to look whether somebody rests, while all seats are taken and none does.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::watch;
    use tokio::time::advance;

    use super::*;

    fn seats(room: &Arc<Room>, count: usize) -> Vec<Seat> {
        let closing = watch::channel(false).1;
        (0..count).map(|_| Seat::new(room, closing.clone(), room.free().unwrap())).collect()
    }

    async fn is_wanted(rest: &mut Rest) -> bool {
        poll_fn(|cx| Poll::Ready(rest.poll_wanted(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_rested_for_longest_makes_way_and_nobody_else() {
        let room = Arc::new(Room::new(3));
        let seats = seats(&room, 3);
        assert!(room.free().is_none());
        let now = Instant::now();
        let mut younger = seats[0].rest(now);
        let mut oldest = seats[1].rest(now - QUIET);
        let mut new = seats[2].rest(now - QUIET + GRACE);
        assert!(room.ask_one_to_leave());
        assert!(is_wanted(&mut oldest).await);
        assert!(!is_wanted(&mut younger).await && !is_wanted(&mut new).await);
        // Back to work at the same moment: it is known that it has to leave.
        assert!(oldest.end());
        assert!(!younger.end());
        assert!(!room.ask_one_to_leave());
        advance(GRACE).await;
        assert!(room.ask_one_to_leave() && is_wanted(&mut new).await);
        assert_eq!(room.made_way(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_waits_for_a_seat_and_has_one_leave_for_it() {
        let room = Arc::new(Room::new(2));
        let mut taken = seats(&room, 2);
        let newcomer = async {
            let mut is_asked = false;
            room.seat(&mut is_asked).await.unwrap()
        };
        let others = async {
            // All at work.
            tokio::time::sleep(LEAVING * 3).await;
            assert_eq!(room.made_way(), 0);
            let mut rest = taken[1].rest(Instant::now());
            poll_fn(|cx| rest.poll_wanted(cx)).await;
            drop((rest, taken.pop()));
        };
        let (seat, ()) = tokio::join!(newcomer, others);
        assert_eq!(room.made_way(), 1);
        drop(seat);
        assert!(room.free().is_some());
    }
}
