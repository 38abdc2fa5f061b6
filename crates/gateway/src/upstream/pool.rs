//! Connections that wait for their next request. Each worker has its own.

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

/// Connections by the number of their address.
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
    /// The connection that was used last: the others may then grow old and go.
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

    /// Closes what nobody has asked for in a while.
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

    /// Counts a request as under way, from now on.
    pub(crate) fn begin_request(
        self: &Arc<Self>,
        endpoint: &Arc<UpstreamEndpoint>,
    ) -> UpstreamSlot {
        endpoint.begin();
        UpstreamSlot { endpoint: Arc::clone(endpoint), pool: Arc::clone(self), _place: None }
    }
}

impl UpstreamSlot {
    /// With a place that is its client's until the end.
    pub(super) fn with_share(mut self, place: Option<ClientShare>) -> Self {
        self._place = place;
        self
    }

    /// The response is complete. Its connection may be used again, if there is one.
    pub(crate) fn finish(self, link: Option<UpstreamLink>) {
        if let Some(link) = link {
            self.pool.put(&self.endpoint, link);
        }
    }

    /// It did not come, or not to its end.
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

const MAX_IDLE: usize = 512;
/// Less than what services commonly allow, so that it is us who close.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
