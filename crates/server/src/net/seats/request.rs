//! The outcome of a request for a seat: a taken seat, or a place in the queue for one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::SeatPool;
use super::seat_use::SeatUse;

/// The outcome of a request for a seat.
#[derive(Debug)]
pub(crate) enum SeatOutcome {
    Seated(SeatGuard),
    Queued(SeatRequest),
    /// The queue is full, and no client in it has more seats.
    Refused,
}

/// A place in the queue for a seat.
#[derive(Debug)]
pub(crate) struct SeatRequest {
    pub(super) pool: Arc<SeatPool>,
    pub(super) number: u64,
    pub(super) granted: oneshot::Receiver<(u64, SeatUse)>,
}

impl SeatRequest {
    /// Waits for a seat, however long that takes. `None` if clients with fewer seats have filled the
    /// queue.
    pub(crate) async fn seat(mut self) -> Option<SeatGuard> {
        loop {
            let is_evicting = self.pool.evict_one(self.number);
            let patience = if is_evicting { LEAVING } else { LOOK_AGAIN };
            match timeout(patience, &mut self.granted).await {
                Ok(Ok((number, work))) => {
                    return Some(SeatGuard { pool: Arc::clone(&self.pool), number, work });
                }
                Ok(Err(_)) => {
                    self.pool.refused.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Err(_) => {}
            }
        }
    }
}

impl Drop for SeatRequest {
    fn drop(&mut self) {
        self.pool.seating.lock().stop_waiting(self.number);
        // A seat may have been granted at the last moment.
        self.granted.close();
        if let Ok((number, _)) = self.granted.try_recv() {
            let grant = self.pool.seating.lock().vacate(number);
            self.pool.hand_over(grant);
        }
    }
}

/// A taken seat. Dropping it frees the seat.
#[derive(Debug)]
pub(crate) struct SeatGuard {
    pub(super) pool: Arc<SeatPool>,
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
        let grant = self.pool.seating.lock().vacate(self.number);
        self.pool.hand_over(grant);
    }
}

/// How long an evicted connection can take to close before another one is evicted.
pub(super) const LEAVING: Duration = Duration::from_secs(1);
/// How often to look for a connection to evict, while there is none.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
