//! The seats of one client, and which of them it gives up first.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use tokio::time::Instant;

use super::QUIET;
use super::table::{LeaveOrder, SeatOccupant};

/// The connections of one client, seated and waiting.
#[derive(Debug)]
pub(super) struct ClientSeats {
    pub(super) address: IpAddr,
    /// Seats of the client, without evicted ones.
    pub(super) held: usize,
    /// Connections that wait for a seat.
    pub(super) waiting: usize,
    /// Waiting connections for which another one was evicted.
    pub(super) claims: usize,
    pub(super) idle: BTreeSet<LeaveOrder>,
    /// Busy connections whose request was incomplete at the last check.
    pub(super) asking: BTreeSet<(Instant, u64)>,
    /// Busy connections whose request is being answered.
    answered: BTreeSet<(Instant, u64)>,
}

impl ClientSeats {
    pub(super) const fn new(address: IpAddr) -> Self {
        Self {
            address,
            held: 0,
            waiting: 0,
            claims: 0,
            idle: BTreeSet::new(),
            asking: BTreeSet::new(),
            answered: BTreeSet::new(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting == 0
    }

    pub(super) fn forget(&mut self, since: Instant, number: u64) {
        if !self.asking.remove(&(since, number)) {
            self.answered.remove(&(since, number));
        }
    }

    pub(super) fn remove_waiter(&mut self, evicted: Option<u64>) {
        self.waiting = self.waiting.saturating_sub(1);
        self.remove_claim(evicted);
    }

    pub(super) fn remove_claim(&mut self, evicted: Option<u64>) {
        self.claims = self.claims.saturating_sub(usize::from(evicted.is_some()));
    }

    /// The seat that this client gives up: an idle one, then one whose request is incomplete, and above
    /// its share also one that is being answered.
    pub(super) fn seat_to_evict(
        &mut self,
        seats: &HashMap<u64, SeatOccupant>,
        now: Instant,
        is_above_its_share: bool,
    ) -> Option<u64> {
        let is_new = |since: Instant| since + QUIET > now;
        if let Some((_, from, number)) = self.idle.first()
            && (*from <= now || seats.get(number).is_some_and(|seat| !is_new(seat.since)))
        {
            return Some(*number);
        }
        while let Some((since, number)) = self.asking.first().copied() {
            if is_new(since) {
                break;
            }
            if seats.get(&number).is_none_or(|seat| !seat.work.is_served()) {
                return Some(number);
            }
            self.asking.remove(&(since, number));
            self.answered.insert((since, number));
        }
        self.answered.first().filter(|_| is_above_its_share).map(|(_, number)| *number)
    }
}
