//! The table of seats: which connections have one, which wait, and which are evicted.
//!
//! When all seats are taken, the client that has the most gives one up to a client that has fewer. It
//! gives up idle connections first, starting with those whose last answer was a denial; then connections
//! whose request is incomplete. A client above its share also gives up connections that are being
//! answered. No client takes a seat from one that would then have fewer than itself, with one exception:
//! a client below its share gets the seat that has been idle for longest, whoever has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::task::Waker;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::client_network::ClientNetwork;
use super::client_seats::ClientSeats;
use super::queue::{SeatGrant, SeatWaiter};
use super::seat_use::SeatUse;

/// The seats of a listener, and the queue for them.
#[derive(Debug)]
pub(super) struct SeatTable {
    pub(super) free: usize,
    pub(super) rules: SeatRules,
    seats: HashMap<u64, SeatOccupant>,
    pub(super) groups: HashMap<ClientNetwork, ClientSeats>,
    /// Clients, by how many seats they have.
    by_size: BTreeSet<(usize, ClientNetwork)>,
    /// All idle connections, in the order of eviction.
    idle: BTreeSet<LeaveOrder>,
    pub(super) waiting: BTreeMap<u64, SeatWaiter>,
    next: u64,
}

/// The rules by which clients share the seats.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatRules {
    /// How many seats a client keeps, whatever it does with them.
    pub(super) share: usize,
    /// Whether the share also applies to clients on this machine.
    pub(super) is_for_all: bool,
    /// How many connections can wait for a seat.
    pub(super) max_waiting: usize,
}

/// A connection that has a seat.
#[derive(Debug)]
pub(super) struct SeatOccupant {
    client: Option<ClientNetwork>,
    /// When the connection opened, or last became busy after an idle period.
    pub(super) since: Instant,
    state: SeatState,
    pub(super) work: SeatUse,
    /// Ends the connection, whatever it does.
    end: Option<AbortHandle>,
}

#[derive(Debug)]
enum SeatState {
    Busy,
    Idle(LeaveOrder, Waker),
    /// The connection was evicted, and has not closed yet.
    Leaving,
}

/// The order of eviction: connections whose last answer was a denial first (`false`), then by when they
/// became idle.
pub(super) type LeaveOrder = (bool, Instant, u64);

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
    pub(super) fn new(seats: usize, rules: SeatRules) -> Self {
        Self {
            free: seats,
            rules,
            seats: HashMap::new(),
            groups: HashMap::new(),
            by_size: BTreeSet::new(),
            idle: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Takes a free seat, if there is one.
    pub(super) fn take_free(&mut self, address: Option<IpAddr>) -> Option<(u64, SeatUse)> {
        self.free = self.free.checked_sub(1)?;
        self.ensure_client(address);
        Some(self.occupy(address.map(ClientNetwork::from)))
    }

    /// Makes sure that there is a group for a client.
    pub(super) fn ensure_client(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.groups.entry(address.into()).or_insert_with(|| ClientSeats::new(address));
        }
    }

    pub(super) fn occupy(&mut self, client: Option<ClientNetwork>) -> (u64, SeatUse) {
        let (number, since, work) = (self.number(), Instant::now(), SeatUse::default());
        let state = SeatState::Busy;
        let occupant = SeatOccupant { client, since, state, work: work.clone(), end: None };
        self.seats.insert(number, occupant);
        self.change(client, |group| {
            group.held = group.held.saturating_add(1);
            group.asking.insert((since, number));
        });
        (number, work)
    }

    /// Changes a group, and its position among the others. An empty group is removed.
    pub(super) fn change(
        &mut self,
        client: Option<ClientNetwork>,
        change: impl FnOnce(&mut ClientSeats),
    ) {
        let Some(client) = client else { return };
        let Some(group) = self.groups.get_mut(&client) else { return };
        let before = group.held;
        change(group);
        let (after, is_empty) = (group.held, group.is_empty());
        if before != after {
            self.by_size.remove(&(before, client));
            if after > 0 {
                self.by_size.insert((after, client));
            }
        }
        if is_empty {
            self.groups.remove(&client);
        }
    }

    /// Sets the handle that ends a connection.
    pub(super) fn set_abort(&mut self, number: u64, end: AbortHandle) {
        if let Some(occupant) = self.seats.get_mut(&number) {
            occupant.end = Some(end);
        }
    }

    /// Frees the seat of a connection that has ended. Returns the grant of the seat to a waiter, if any.
    pub(super) fn vacate(&mut self, number: u64) -> Option<SeatGrant> {
        let SeatOccupant { client, since, state, .. } = self.seats.remove(&number)?;
        if let SeatState::Idle(order, _) = &state {
            self.idle.remove(order);
        }
        let is_held = !matches!(state, SeatState::Leaving);
        self.change(client, |group| {
            group.forget(since, number);
            if let SeatState::Idle(order, _) = &state {
                group.idle.remove(order);
            }
            group.held = group.held.saturating_sub(usize::from(is_held));
        });
        self.free = self.free.saturating_add(1);
        self.grant()
    }

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

    /// Marks a connection as idle. Its seat can be taken away after `from`.
    pub(super) fn mark_idle(&mut self, number: u64, from: Instant) {
        let Some(occupant) = self.seats.get_mut(&number) else { return };
        if matches!(occupant.state, SeatState::Leaving) {
            return;
        }
        let (client, since) = (occupant.client, occupant.since);
        occupant.work.mark_waiting();
        let order = (!occupant.work.is_denied(), from, number);
        occupant.state = SeatState::Idle(order, Waker::noop().clone());
        self.idle.insert(order);
        self.change(client, |group| {
            group.forget(since, number);
            group.idle.insert(order);
        });
    }

    /// Whether an idle connection was evicted; if not, `waker` is woken when it is.
    pub(super) fn is_wanted(&mut self, number: u64, waker: &Waker) -> bool {
        match self.seats.get_mut(&number).map(|occupant| &mut occupant.state) {
            Some(SeatState::Idle(_, before)) => {
                before.clone_from(waker);
                false
            }
            Some(SeatState::Busy) => false,
            Some(SeatState::Leaving) | None => true,
        }
    }

    /// Marks a connection as busy. Returns whether it was evicted, and must close after its request.
    pub(super) fn mark_busy(&mut self, number: u64) -> bool {
        let Some(occupant) = self.seats.get_mut(&number) else { return true };
        let order = match &occupant.state {
            SeatState::Leaving => return true,
            SeatState::Busy => return false,
            SeatState::Idle(order, _) => *order,
        };
        occupant.state = SeatState::Busy;
        occupant.since = Instant::now();
        let (client, since) = (occupant.client, occupant.since);
        self.idle.remove(&order);
        self.change(client, |group| {
            group.idle.remove(&order);
            group.asking.insert((since, number));
        });
        false
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
