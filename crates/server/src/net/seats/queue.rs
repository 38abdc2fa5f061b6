//! The queue for seats: which connections wait, and which of them gets the next free seat.

use std::collections::HashMap;
use std::net::IpAddr;

use tokio::sync::oneshot;

use super::client_network::ClientNetwork;
use super::seat_use::SeatUse;
use super::table::SeatTable;

/// A connection that waits for a seat.
#[derive(Debug)]
pub(super) struct SeatWaiter {
    pub(super) client: Option<ClientNetwork>,
    pub(super) seat: oneshot::Sender<(u64, SeatUse)>,
    /// The seat number of the connection that was evicted for this one.
    pub(super) evicted: Option<u64>,
}

/// A seat that is granted to a waiting connection.
#[derive(Debug)]
pub(super) struct SeatGrant {
    pub(super) number: u64,
    pub(super) work: SeatUse,
    pub(super) to: oneshot::Sender<(u64, SeatUse)>,
}

impl SeatTable {
    /// Grants a free seat to the waiting client with the fewest seats; among equals, to the first in line.
    pub(super) fn grant(&mut self) -> Option<SeatGrant> {
        if self.free == 0 {
            return None;
        }
        let waiters = self.waiting.iter();
        let first = waiters.min_by_key(|(id, waiter)| (self.held(waiter.client), **id));
        let first = *first?.0;
        let SeatWaiter { client, seat, evicted } = self.waiting.remove(&first)?;
        self.free = self.free.saturating_sub(1);
        let (number, work) = self.occupy(client);
        self.change(client, |group| group.remove_waiter(evicted));
        Some(SeatGrant { number, work, to: seat })
    }

    /// Adds a connection to the queue, and returns its number. `None` if the queue is full and no client
    /// in it has more seats.
    pub(super) fn queue(
        &mut self,
        address: Option<IpAddr>,
        seat: oneshot::Sender<(u64, SeatUse)>,
    ) -> Option<u64> {
        let client = address.map(ClientNetwork::from);
        if self.waiting.len() >= self.rules.max_waiting && !self.drop_last_waiter(client) {
            return None;
        }
        self.ensure_client(address);
        self.change(client, |group| group.waiting = group.waiting.saturating_add(1));
        let number = self.number();
        self.waiting.insert(number, SeatWaiter { client, seat, evicted: None });
        Some(number)
    }

    /// Drops the last waiter of the client that has the most seats and waiters, if `client` has fewer.
    fn drop_last_waiter(&mut self, client: Option<ClientNetwork>) -> bool {
        let mut sizes: HashMap<Option<ClientNetwork>, usize> = HashMap::new();
        for waiter in self.waiting.values() {
            let size = sizes.entry(waiter.client).or_insert_with(|| self.held(waiter.client));
            *size = size.saturating_add(1);
        }
        let size = |client: &Option<ClientNetwork>| sizes.get(client).copied().unwrap_or(0);
        let own = size(&client).max(self.held(client)).saturating_add(1);
        let most = self.waiting.iter().max_by_key(|(id, waiter)| (size(&waiter.client), **id));
        let most = most.filter(|(_, waiter)| size(&waiter.client) > own);
        let Some(id) = most.map(|(id, _)| *id) else {
            return false;
        };
        self.stop_waiting(id);
        true
    }

    fn held(&self, client: Option<ClientNetwork>) -> usize {
        client.and_then(|client| self.groups.get(&client)).map_or(0, |group| group.held)
    }

    /// Removes a connection from the queue.
    pub(super) fn stop_waiting(&mut self, number: u64) {
        if let Some(SeatWaiter { client, evicted, .. }) = self.waiting.remove(&number) {
            self.change(client, |group| group.remove_waiter(evicted));
        }
    }
}
