//! The pool of idle and shared connections to services. Each worker has its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::client_shares::ClientShare;
use super::endpoint::UpstreamEndpoint;
use super::h1::UpstreamLink;
use super::h2::Http2Sender;
use super::{UpstreamFailure, UpstreamSlot};

/// Connections to services, by the number of their address.
#[derive(Debug, Default)]
pub(crate) struct UpstreamPool {
    idle: Mutex<HashMap<u64, VecDeque<IdleLink>>>,
    shared: Mutex<HashMap<u64, Http2Sender>>,
}

#[derive(Debug)]
struct IdleLink {
    link: UpstreamLink,
    since: Instant,
}

impl UpstreamPool {
    /// The idle connection that was used last, so that surplus connections age and are closed.
    pub(crate) fn take(&self, endpoint: &UpstreamEndpoint) -> Option<UpstreamLink> {
        loop {
            let mut idle = self.idle.lock();
            let IdleLink { mut link, since } = idle.get_mut(&endpoint.number)?.pop_back()?;
            drop(idle);
            if since.elapsed() < MAX_IDLE_TIME && link.is_quiet() {
                return Some(link);
            }
        }
    }

    fn put(&self, endpoint: &UpstreamEndpoint, link: UpstreamLink) {
        let mut idle = self.idle.lock();
        let links = idle.entry(endpoint.number).or_default();
        if links.len() < MAX_IDLE {
            links.push_back(IdleLink { link, since: Instant::now() });
        }
    }

    /// Closes the connections that have been idle for too long.
    pub(crate) fn sweep(&self) {
        let mut idle = self.idle.lock();
        for links in idle.values_mut() {
            while links.front().is_some_and(|it| it.since.elapsed() >= MAX_IDLE_TIME) {
                links.pop_front();
            }
        }
        idle.retain(|_, links| !links.is_empty());
        self.shared.lock().retain(|_, sender| !sender.is_closed());
    }

    /// The HTTP/2 connection to an address, which many requests share.
    pub(crate) fn shared(&self, endpoint: &UpstreamEndpoint) -> Option<Http2Sender> {
        self.shared.lock().get(&endpoint.number).filter(|it| !it.is_closed()).cloned()
    }

    pub(crate) fn share(&self, endpoint: &UpstreamEndpoint, sender: Http2Sender) {
        self.shared.lock().insert(endpoint.number, sender);
    }

    pub(crate) fn forget_shared(&self, endpoint: &UpstreamEndpoint) {
        self.shared.lock().remove(&endpoint.number);
    }

    /// Counts a request as under way until the slot is dropped.
    pub(crate) fn begin_request(
        self: &Arc<Self>,
        endpoint: &Arc<UpstreamEndpoint>,
    ) -> UpstreamSlot {
        endpoint.begin();
        UpstreamSlot { endpoint: Arc::clone(endpoint), pool: Arc::clone(self), _share: None }
    }
}

impl UpstreamSlot {
    /// Holds the client's share until the end.
    pub(super) fn with_share(mut self, share: Option<ClientShare>) -> Self {
        self._share = share;
        self
    }

    /// Ends a request with a complete response. Its connection, if any, goes back to the pool.
    pub(crate) fn finish(self, link: Option<UpstreamLink>) {
        if let Some(link) = link {
            self.pool.put(&self.endpoint, link);
        }
    }

    /// Ends a request whose response did not come or is incomplete.
    pub(crate) fn fail(self, failure: &UpstreamFailure) {
        if failure.is_upstream_fault() {
            self.endpoint.record_failure(failure);
        }
    }
}

impl Drop for UpstreamSlot {
    fn drop(&mut self) {
        self.endpoint.end();
    }
}

/// Idle connections for each address.
const MAX_IDLE: usize = 512;
/// Shorter than the common limits of services, so that the gateway closes first.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
