//! The connections of one client, and which of them it gives up.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use tokio::time::Instant;

use super::QUIET;
use super::table::{LeaveOrder, SeatOccupant};

/// The connections of one client.
#[derive(Debug)]
pub(super) struct ClientSeats {
    pub(super) address: IpAddr,
    /// Seats, without those that are being left.
    pub(super) held: usize,
    /// How many wait for a seat.
    pub(super) waiting: usize,
    /// How many of these wait for one that somebody is leaving for them.
    pub(super) claims: usize,
    pub(super) idle: BTreeSet<LeaveOrder>,
    /// Those at work that had not finished asking when this was last looked at.
    pub(super) asking: BTreeSet<(Instant, u64)>,
    /// Those at work that are answered.
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

    pub(super) fn remove_waiter(&mut self, asked: Option<u64>) {
        self.waiting = self.waiting.saturating_sub(1);
        self.remove_claim(asked);
    }

    pub(super) fn remove_claim(&mut self, asked: Option<u64>) {
        self.claims = self.claims.saturating_sub(usize::from(asked.is_some()));
    }

    /// Which seat this client gives up, if it has the most.
    pub(super) fn seat_to_evict(
        &mut self,
        seats: &HashMap<u64, SeatOccupant>,
        now: Instant,
        is_above_its_share: bool,
    ) -> Option<u64> {
        let is_new = |since: Instant| since + QUIET > now;
        if let Some((_, from, number)) = self.idle.first()
            && (*from <= now || seats.get(number).is_some_and(|it| !is_new(it.since)))
        {
            return Some(*number);
        }
        while let Some((since, number)) = self.asking.first().copied() {
            if is_new(since) {
                break;
            }
            if seats.get(&number).is_none_or(|it| !it.work.is_served()) {
                return Some(number);
            }
            self.asking.remove(&(since, number));
            self.answered.insert((since, number));
        }
        self.answered.first().filter(|_| is_above_its_share).map(|(_, number)| *number)
    }
}
