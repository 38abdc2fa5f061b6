//! What whoever comes to a room gets: a seat, or a place in the queue for one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::SeatPool;
use super::seat_use::SeatUse;

/// What becomes of somebody who has come.
#[derive(Debug)]
pub(crate) enum SeatOutcome {
    Seated(SeatGuard),
    Queued(SeatRequest),
    /// Too many wait, and none of them has more seats.
    Refused,
}

/// A place in the queue for a seat.
#[derive(Debug)]
pub(crate) struct SeatRequest {
    pub(super) room: Arc<SeatPool>,
    pub(super) number: u64,
    pub(super) granted: oneshot::Receiver<(u64, SeatUse)>,
}

impl SeatRequest {
    /// A seat, however long that takes; `None` if others, who have fewer, have filled the queue.
    pub(crate) async fn seat(mut self) -> Option<SeatGuard> {
        loop {
            let is_asked = self.room.evict_one(self.number);
            let patience = if is_asked { LEAVING } else { LOOK_AGAIN };
            match timeout(patience, &mut self.granted).await {
                Ok(Ok((number, work))) => {
                    return Some(SeatGuard { room: Arc::clone(&self.room), number, work });
                }
                Ok(Err(_)) => {
                    self.room.refused.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Err(_) => {}
            }
        }
    }
}

impl Drop for SeatRequest {
    fn drop(&mut self) {
        self.room.seating.lock().stop_waiting(self.number);
        // It may have been handed over at the last moment.
        self.granted.close();
        if let Ok((number, _)) = self.granted.try_recv() {
            let grant = self.room.seating.lock().vacate(number);
            self.room.hand_over(grant);
        }
    }
}

/// A seat that is taken. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct SeatGuard {
    pub(super) room: Arc<SeatPool>,
    pub(super) number: u64,
    pub(super) work: SeatUse,
}

impl SeatGuard {
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        let grant = self.room.seating.lock().vacate(self.number);
        self.room.hand_over(grant);
    }
}

/// How long somebody may take to leave before another one is asked.
pub(super) const LEAVING: Duration = Duration::from_secs(1);
/// How often to look whether somebody rests, while all seats are taken and none does.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
