//! Divides the request slots of a service among clients while slots are short.
//!
//! The first half of the slots goes to any client, without counting. From the second half, a client gets at
//! most a tenth of all slots. So a single client can have at most six tenths of the slots.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_server::ClientNetwork;

use super::UpstreamFailure;

/// The number of slots taken from the second half, by client.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientShares(Arc<Mutex<HashMap<ClientNetwork, usize>>>);

/// A slot that counts against its client's share; released on drop.
#[derive(Debug)]
pub(crate) struct ClientShare {
    client: ClientNetwork,
    shares: ClientShares,
}

impl ClientShares {
    /// Takes a slot if `taken` of `most` slots are in use. Clients on this machine have no share: they are
    /// usually proxies, which serve many clients.
    pub(super) fn take(
        &self,
        client: Option<&str>,
        taken: usize,
        most: usize,
    ) -> Result<Option<ClientShare>, UpstreamFailure> {
        if taken < most / 2 {
            return Ok(None);
        }
        let client = client.and_then(|it| it.parse::<IpAddr>().ok()).map(ClientNetwork::from);
        let Some(client) = client.filter(|client| !client.is_local()) else { return Ok(None) };
        let mut shares = self.0.lock();
        let share = shares.entry(client).or_default();
        if *share >= (most / 10).max(1) {
            return Err(UpstreamFailure::Share);
        }
        *share += 1;
        Ok(Some(ClientShare { client, shares: self.clone() }))
    }
}

impl Drop for ClientShare {
    fn drop(&mut self) {
        let mut shares = self.shares.0.lock();
        if let Some(share) = shares.get_mut(&self.client) {
            *share -= 1;
            if *share == 0 {
                shares.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_12_a_client_gets_a_tenth_of_the_second_half() {
        let (shares, client) = (ClientShares::default(), Some("192.0.2.1"));
        assert!(matches!(shares.take(client, 49, 100), Ok(None)));
        let mut places: Vec<_> = (50..60).map(|taken| shares.take(client, taken, 100)).collect();
        assert!(places.iter().all(|place| matches!(place, Ok(Some(_)))));
        assert!(matches!(shares.take(client, 60, 100), Err(UpstreamFailure::Share)));
        assert!(matches!(shares.take(Some("192.0.2.2"), 60, 100), Ok(Some(_))));
        for other in [None, Some("127.0.0.1"), Some("::1")] {
            assert!(matches!(shares.take(other, 60, 100), Ok(None)), "{other:?}");
        }
        places.pop();
        assert!(matches!(shares.take(client, 60, 100), Ok(Some(_))));
        drop(places);
        assert!(shares.0.lock().is_empty());
        // However few slots there are, every client can have one.
        assert!(matches!(shares.take(client, 0, 1), Ok(Some(_))));
    }
}
