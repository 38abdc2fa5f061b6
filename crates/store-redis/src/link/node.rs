//! One server, with its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::dial::{Role, dial};
use super::failure::Failure;
use super::lane::Lane;
use super::live::{Driver, Live};
use super::sentinel::Sentinels;
use crate::RedisConfig;
use crate::url::Address;

/// One server, with its connections. None is made before it is needed.
#[derive(Debug)]
pub(super) struct Node {
    lanes: Box<[Lane]>,
    route: Arc<Route>,
    /// Whether calls were sent here since the Cluster was last asked for its nodes, even though
    /// this node was not among them.
    used: AtomicBool,
}

impl Node {
    pub(super) fn new(route: Route) -> Self {
        let connections = route.config.connections;
        let route = Arc::new(route);
        let lanes = (0..connections).map(|_| Lane::new(Arc::clone(&route))).collect();
        Self { lanes, route, used: AtomicBool::new(false) }
    }

    pub(super) fn lane(&self, lane: usize) -> &Lane {
        &self.lanes[lane % self.lanes.len()]
    }

    /// It may not be the right one any more.
    pub(super) fn doubt(&self) {
        self.route.doubt();
    }

    pub(super) fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether it was used since the last time this was asked.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

/// How to get to a server.
#[derive(Debug)]
pub(super) struct Route {
    config: Arc<RedisConfig>,
    end: RouteEnd,
}

#[derive(Debug)]
enum RouteEnd {
    At(Address),
    /// Wherever the Sentinels say.
    Primary(Arc<Sentinels>),
}

impl Route {
    pub(super) const fn to(address: Address, config: Arc<RedisConfig>) -> Self {
        Self { config, end: RouteEnd::At(address) }
    }

    pub(super) const fn by_sentinels(sentinels: Arc<Sentinels>, config: Arc<RedisConfig>) -> Self {
        Self { config, end: RouteEnd::Primary(sentinels) }
    }

    pub(super) fn max_age(&self) -> Duration {
        self.config.max_age
    }

    /// Where the server is now.
    pub(super) async fn address(&self) -> Result<Address, Failure> {
        match &self.end {
            RouteEnd::At(address) => Ok(address.clone()),
            RouteEnd::Primary(sentinels) => sentinels.primary().await,
        }
    }

    pub(super) async fn dial(&self, address: &Address) -> Result<(Live, Driver), Failure> {
        let role = match self.end {
            RouteEnd::At(_) => Role::Any,
            RouteEnd::Primary(_) => Role::Primary,
        };
        dial(address, role, &self.config).await
    }

    /// Returns when the server is not at this address any more.
    pub(super) async fn elsewhere(&self, address: &Address) {
        match &self.end {
            RouteEnd::At(_) => std::future::pending().await,
            RouteEnd::Primary(sentinels) => sentinels.elsewhere(address).await,
        }
    }

    /// A server there refuses, fails or is silent, so it may be elsewhere.
    pub(super) fn doubt(&self) {
        if let RouteEnd::Primary(sentinels) = &self.end {
            sentinels.doubt();
        }
    }
}
