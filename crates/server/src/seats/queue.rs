//! The queue in front of a room: who waits for a seat, and who gets the next one.

use std::collections::HashMap;
use std::net::IpAddr;

use tokio::sync::oneshot;

use super::client_network::ClientNetwork;
use super::seat_use::SeatUse;
use super::table::SeatTable;

/// Somebody without a seat.
#[derive(Debug)]
pub(super) struct SeatWaiter {
    pub(super) client: Option<ClientNetwork>,
    pub(super) seat: oneshot::Sender<(u64, SeatUse)>,
    /// Who was told to leave for it.
    pub(super) evicted: Option<u64>,
}

/// A seat for somebody who has waited for it.
#[derive(Debug)]
pub(super) struct SeatGrant {
    pub(super) number: u64,
    pub(super) work: SeatUse,
    pub(super) to: oneshot::Sender<(u64, SeatUse)>,
}

impl SeatTable {
    /// A free seat goes to whoever has the fewest, and of these to the first.
    pub(super) fn grant(&mut self) -> Option<SeatGrant> {
        if self.free == 0 {
            return None;
        }
        let seats =
            |it: &SeatWaiter| it.client.and_then(|it| self.groups.get(&it)).map_or(0, |it| it.held);
        let first =
            self.waiting.iter().min_by_key(|(id, it)| (seats(it), **id)).map(|(id, _)| *id)?;
        let SeatWaiter { client, seat, evicted: asked } = self.waiting.remove(&first)?;
        self.free = self.free.saturating_sub(1);
        let (number, work) = self.occupy(client);
        self.change(client, |group| group.remove_waiter(asked));
        Some(SeatGrant { number, work, to: seat })
    }

    /// Waits for a seat. Returns under which number, unless others with fewer seats fill the queue.
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

    /// Sends away who came last of the client that has the most, if that is more than `client` has.
    fn drop_last_waiter(&mut self, client: Option<ClientNetwork>) -> bool {
        let mut sizes: HashMap<Option<ClientNetwork>, usize> = HashMap::new();
        for waiting in self.waiting.values() {
            let size = sizes.entry(waiting.client).or_insert_with(|| self.held(waiting.client));
            *size = size.saturating_add(1);
        }
        let size = |client: &Option<ClientNetwork>| sizes.get(client).copied().unwrap_or(0);
        let own = size(&client).max(self.held(client)).saturating_add(1);
        let most = self.waiting.iter().max_by_key(|(id, it)| (size(&it.client), **id));
        let Some(id) = most.filter(|(_, it)| size(&it.client) > own).map(|(id, _)| *id) else {
            return false;
        };
        self.stop_waiting(id);
        true
    }

    fn held(&self, client: Option<ClientNetwork>) -> usize {
        client.and_then(|client| self.groups.get(&client)).map_or(0, |group| group.held)
    }

    /// Somebody does not wait any more.
    pub(super) fn stop_waiting(&mut self, number: u64) {
        if let Some(SeatWaiter { client, evicted: asked, .. }) = self.waiting.remove(&number) {
            self.change(client, |group| group.remove_waiter(asked));
        }
    }
}
