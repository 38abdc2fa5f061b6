//! One Redis server, with its connections and the way to reach it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::dial::{RequiredRole, dial};
use super::failure::RedisFailure;
use super::lane::ConnectionLane;
use super::sentinel::SentinelGroup;
use super::shared_connection::{ConnectionDriver, SharedConnection};
use crate::RedisConfig;
use crate::url::RedisAddress;

/// One server, with its connections. A connection is made when it is first needed.
#[derive(Debug)]
pub(super) struct RedisNode {
    lanes: Box<[ConnectionLane]>,
    route: Arc<NodeRoute>,
    /// Whether calls were redirected here since the slot map was last fetched, even though this node
    /// was not on it.
    used: AtomicBool,
}

impl RedisNode {
    pub(super) fn new(route: NodeRoute) -> Self {
        let connections = route.config.connections;
        let route = Arc::new(route);
        let lanes = (0..connections).map(|_| ConnectionLane::new(Arc::clone(&route))).collect();
        Self { lanes, route, used: AtomicBool::new(false) }
    }

    pub(super) fn lane(&self, lane: usize) -> &ConnectionLane {
        &self.lanes[lane % self.lanes.len()]
    }

    /// Checks whether this is still the right server.
    pub(super) fn suspect_topology(&self) {
        self.route.suspect_topology();
    }

    pub(super) fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether it was marked as used since the last call of this function.
    pub(super) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

/// How to reach a server.
#[derive(Debug)]
pub(super) struct NodeRoute {
    config: Arc<RedisConfig>,
    end: NodeLocation,
}

/// Where a server is.
#[derive(Debug)]
enum NodeLocation {
    At(RedisAddress),
    /// At the address that the Sentinels report.
    Primary(Arc<SentinelGroup>),
}

impl NodeRoute {
    pub(super) const fn to(address: RedisAddress, config: Arc<RedisConfig>) -> Self {
        Self { config, end: NodeLocation::At(address) }
    }

    pub(super) const fn by_sentinels(
        sentinels: Arc<SentinelGroup>,
        config: Arc<RedisConfig>,
    ) -> Self {
        Self { config, end: NodeLocation::Primary(sentinels) }
    }

    pub(super) fn max_age(&self) -> Duration {
        self.config.max_age
    }

    /// Where the server is now.
    pub(super) async fn address(&self) -> Result<RedisAddress, RedisFailure> {
        match &self.end {
            NodeLocation::At(address) => Ok(address.clone()),
            NodeLocation::Primary(sentinels) => sentinels.primary().await,
        }
    }

    pub(super) async fn dial(
        &self,
        address: &RedisAddress,
    ) -> Result<(SharedConnection, ConnectionDriver), RedisFailure> {
        let role = match self.end {
            NodeLocation::At(_) => RequiredRole::Any,
            NodeLocation::Primary(_) => RequiredRole::Primary,
        };
        dial(address, role, &self.config).await
    }

    /// Returns when the server is no longer at this address.
    pub(super) async fn wait_until_moved(&self, address: &RedisAddress) {
        match &self.end {
            NodeLocation::At(_) => std::future::pending().await,
            NodeLocation::Primary(sentinels) => sentinels.wait_until_moved(address).await,
        }
    }

    /// Has the Sentinels queried: the server refuses, fails or is silent, so it may have moved.
    pub(super) fn suspect_topology(&self) {
        if let NodeLocation::Primary(sentinels) = &self.end {
            sentinels.suspect_primary();
        }
    }
}
