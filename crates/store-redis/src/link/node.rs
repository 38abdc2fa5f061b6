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
    /// Whether calls were sent here since the Cluster was last asked for its nodes, even though
    /// this node was not among them.
    used: AtomicBool,
}

impl Node {
    pub(super) fn new(route: Route) -> Self {
        let connections = route.config.connections;
        let route = Arc::new(route);
        let lanes = (0..connections).map(|_| Lane::new(Arc::clone(&route))).collect();
        Self { lanes, used: AtomicBool::new(false) }
    }

    pub(super) fn lane(&self, lane: usize) -> &Lane {
        &self.lanes[lane % self.lanes.len()]
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
    Primary(Sentinels),
}

impl Route {
    pub(super) const fn to(address: Address, config: Arc<RedisConfig>) -> Self {
        Self { config, end: RouteEnd::At(address) }
    }

    pub(super) const fn by_sentinels(sentinels: Sentinels, config: Arc<RedisConfig>) -> Self {
        Self { config, end: RouteEnd::Primary(sentinels) }
    }

    pub(super) fn max_age(&self) -> Duration {
        self.config.max_age
    }

    pub(super) async fn dial(&self) -> Result<(Live, Driver), Failure> {
        match &self.end {
            RouteEnd::At(address) => dial(address, Role::Any, &self.config).await,
            RouteEnd::Primary(sentinels) => {
                let (address, source) = sentinels.primary(&self.config).await?;
                let dialed = dial(&address, Role::Primary, &self.config).await;
                if dialed.is_err() {
                    sentinels.doubt(&source);
                }
                dialed
            }
        }
    }
}
