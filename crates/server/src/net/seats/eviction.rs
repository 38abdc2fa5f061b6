//! Chooses the connections that give up their seats to others.
//!
//! When all seats are taken, the client that has the most gives one up to a client that has fewer. It
//! gives up idle connections first, starting with those whose last answer was a denial; then connections
//! whose request is incomplete. A client above its share also gives up connections that are being
//! answered. No client takes a seat from one that would then have fewer than itself, with one exception:
//! a client below its share gets the seat that has been idle for longest, whoever has it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Bound;
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::client_network::ClientNetwork;
use super::queue::SeatWaiter;
use super::table::{LeaveOrder, SeatOccupant, SeatState, SeatTable};

/// How a connection is evicted.
#[derive(Debug)]
pub(super) enum SeatEviction {
    /// It is idle: it is woken up, and closes.
    Silent(Waker),
    /// Its request is incomplete: it is aborted.
    Asking(AbortHandle),
    /// Its request is being answered: it is aborted.
    Answered(AbortHandle),
    /// It was evicted before and has not closed, although no request is being answered: it is aborted.
    Late(AbortHandle),
}

impl SeatTable {
    /// Evicts a connection for the waiter with this number. `speaks_for_many` recognises proxies.
    pub(super) fn evict_for(
        &mut self,
        waiting: u64,
        speaks_for_many: &dyn Fn(IpAddr) -> bool,
    ) -> Option<SeatEviction> {
        let SeatWaiter { client, evicted, .. } = self.waiting.get_mut(&waiting)?;
        if let Some(end) =
            evicted.and_then(|number| self.seats.get(&number)).and_then(SeatOccupant::overdue_abort)
        {
            return Some(SeatEviction::Late(end));
        }
        let (client, evicted) = (*client, evicted.take());
        self.change(client, |group| group.remove_claim(evicted));
        let now = Instant::now();
        let number = self.choose_evicted(client, now, speaks_for_many)?;
        let eviction = self.evict(number)?;
        if let Some(waiter) = self.waiting.get_mut(&waiting) {
            waiter.evicted = Some(number);
        }
        self.change(client, |group| group.claims = group.claims.saturating_add(1));
        Some(eviction)
    }

    /// Chooses the connection to evict for a client.
    fn choose_evicted(
        &mut self,
        client: Option<ClientNetwork>,
        now: Instant,
        speaks_for_many: &dyn Fn(IpAddr) -> bool,
    ) -> Option<u64> {
        let group = client.and_then(|client| self.groups.get(&client));
        let own = group.map_or(0, |group| group.held.saturating_add(group.claims));
        let has_more = |(held, _): &&(usize, ClientNetwork)| *held >= own.saturating_add(2);
        let larger: Vec<_> =
            self.by_size.iter().rev().take_while(has_more).take(MAX_LOOKS).copied().collect();
        for (held, other) in larger {
            let is_above = held > self.rules.share && self.has_share(other, speaks_for_many);
            let seats = &self.seats;
            let group = self.groups.get_mut(&other);
            let number = group.and_then(|group| group.seat_to_evict(seats, now, is_above));
            if number.is_some() {
                return number;
            }
        }
        let is_within = own < self.rules.share
            || client.is_none_or(|client| !self.has_share(client, speaks_for_many));
        let group = client.and_then(|client| self.groups.get(&client));
        let idle = match group {
            Some(group) if !is_within => &group.idle,
            _ => &self.idle,
        };
        first_evictable(idle, now)
    }

    /// Whether the share applies to a client: not if it is a proxy that acts for many clients.
    fn has_share(&self, client: ClientNetwork, speaks_for_many: &dyn Fn(IpAddr) -> bool) -> bool {
        let group = self.groups.get(&client);
        let is_proxy = group.is_some_and(|group| speaks_for_many(group.address));
        !is_proxy && (self.rules.is_for_all || !client.is_local())
    }

    /// Takes a connection's seat away.
    fn evict(&mut self, number: u64) -> Option<SeatEviction> {
        let occupant = self.seats.get_mut(&number)?;
        // A busy connection without an abort handle, which is set after its start, keeps its seat.
        if !matches!(occupant.state, SeatState::Idle(..)) && occupant.end.is_none() {
            return None;
        }
        let (client, since) = (occupant.client, occupant.since);
        let before = std::mem::replace(&mut occupant.state, SeatState::Leaving);
        let is_answered = occupant.work.is_served();
        let end = occupant.end.clone();
        self.change(client, |group| {
            group.forget(since, number);
            if let SeatState::Idle(order, _) = &before {
                group.idle.remove(order);
            }
            group.held = group.held.saturating_sub(1);
        });
        match before {
            SeatState::Idle(order, waker) => {
                self.idle.remove(&order);
                Some(SeatEviction::Silent(waker))
            }
            _ if is_answered => end.map(SeatEviction::Answered),
            _ => end.map(SeatEviction::Asking),
        }
    }
}

impl SeatOccupant {
    /// The handle to abort an evicted connection that has not closed and is not answering a request.
    fn overdue_abort(&self) -> Option<AbortHandle> {
        let is_evicted = matches!(self.state, SeatState::Leaving);
        self.end.clone().filter(|_| is_evicted && !self.work.is_served())
    }
}

/// The first idle connection that can be evicted now. Considers only two candidates, the first of those
/// whose last answer was a denial and the first of the others, so that the cost does not grow with the
/// number of idle connections.
fn first_evictable(idle: &BTreeSet<LeaveOrder>, now: Instant) -> Option<u64> {
    let behind_denied = Bound::Excluded((false, now + LONGEST_GRACE, u64::MAX));
    let first_other = idle.range((behind_denied, Bound::Unbounded)).next();
    let mut firsts = [idle.first(), first_other].into_iter().flatten();
    firsts.find(|(_, from, _)| *from <= now).map(|(_, _, number)| *number)
}

/// Longer than any grace period of an idle connection.
const LONGEST_GRACE: Duration = Duration::from_secs(86_400);
/// How many clients are considered for an eviction.
const MAX_LOOKS: usize = 8;
