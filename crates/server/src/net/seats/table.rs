//! The table of seats: which connections have one, and which are idle.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::task::Waker;

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
    pub(super) seats: HashMap<u64, SeatOccupant>,
    pub(super) groups: HashMap<ClientNetwork, ClientSeats>,
    /// Clients, by how many seats they have.
    pub(super) by_size: BTreeSet<(usize, ClientNetwork)>,
    /// All idle connections, in the order of eviction.
    pub(super) idle: BTreeSet<LeaveOrder>,
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
    pub(super) client: Option<ClientNetwork>,
    /// When the connection opened, or last became busy after an idle period.
    pub(super) since: Instant,
    pub(super) state: SeatState,
    pub(super) work: SeatUse,
    /// Ends the connection, whatever it does.
    pub(super) end: Option<AbortHandle>,
}

#[derive(Debug)]
pub(super) enum SeatState {
    Busy,
    Idle(LeaveOrder, Waker),
    /// The connection was evicted, and has not closed yet.
    Leaving,
}

/// The order of eviction: connections whose last answer was a denial first (`false`), then by when they
/// became idle.
pub(super) type LeaveOrder = (bool, Instant, u64);

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
