//! The connections of one client, and which of them it gives up.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use tokio::time::Instant;

use super::QUIET;
use super::seating::{Taken, Turn};

/// The connections of one client.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) address: IpAddr,
    /// Seats, without those that are being left.
    pub(super) held: usize,
    /// How many wait for a seat.
    pub(super) waiting: usize,
    /// How many of these wait for one that somebody is leaving for them.
    pub(super) claims: usize,
    pub(super) resting: BTreeSet<Turn>,
    /// Those at work that had not finished asking when this was last looked at.
    pub(super) asking: BTreeSet<(Instant, u64)>,
    /// Those at work that are answered.
    answered: BTreeSet<(Instant, u64)>,
}

impl Group {
    pub(super) const fn new(address: IpAddr) -> Self {
        Self {
            address,
            held: 0,
            waiting: 0,
            claims: 0,
            resting: BTreeSet::new(),
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

    pub(super) fn waits_no_more(&mut self, asked: Option<u64>) {
        self.waiting = self.waiting.saturating_sub(1);
        self.claim_ends(asked);
    }

    pub(super) fn claim_ends(&mut self, asked: Option<u64>) {
        self.claims = self.claims.saturating_sub(usize::from(asked.is_some()));
    }

    /// Which seat this client gives up, if it has the most.
    pub(super) fn gives_up(
        &mut self,
        seats: &HashMap<u64, Taken>,
        now: Instant,
        is_above_its_share: bool,
    ) -> Option<u64> {
        let is_new = |since: Instant| since + QUIET > now;
        if let Some((_, from, number)) = self.resting.first()
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
