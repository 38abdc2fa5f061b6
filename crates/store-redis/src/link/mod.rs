//! The connection to Redis: the only module that uses the `redis` crate.
//!
//! A [`RedisLink`] runs scripts on the server that has their keys. Each server has a few connections,
//! the [lanes](lane); each lane has a [supervisor] that makes its connection, replaces it when it
//! fails or grows old, and turns callers away while there is none. Sentinels and Clusters are
//! handled by our own code ([sentinel], [cluster]): the client library's is wrong for counters,
//! since it resends what may already have run.

mod backoff;
mod bounded_calls;
mod call;
mod cluster;
mod dial;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod lane;
mod memory;
mod node;
mod raw_connection;
mod reply;
mod scoped_task;
mod sentinel;
mod shared_connection;
mod slot_map;
mod supervisor;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use call::{RedisScript, ScriptCall};
pub(crate) use failure::RedisFailure;
pub(crate) use memory::RedisMemory;
pub(crate) use reply::RedisReply;

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tidegate_store::StoreErrorKind;
use tokio::time::sleep;

use self::backoff::jitter;
use self::cluster::RedisCluster;
use self::failure::RedisRefusal;
use self::node::{NodeRoute, RedisNode};
use self::sentinel::SentinelGroup;
use self::shared_connection::{CallError, ConnectionFault, SharedConnection};
use crate::RedisConfig;
use crate::url::{RedisAddress, RedisDeployment};

/// Runs scripts on Redis, whatever its deployment.
///
/// Nothing happens before the first call. Connections are then kept up by tasks on the runtime that
/// made that call, and end when this is dropped.
///
/// A call is sent again only if it provably did not run. The caller bounds the wait: to give up, it
/// drops the future and reports that with [`record_timeout`](Self::record_timeout), or a connection
/// that hangs is never replaced. [`run_within`](Self::run_within) does both.
#[derive(Debug)]
pub(crate) struct RedisLink {
    nodes: LinkNodes,
    lanes: usize,
}

/// Where a link leads. Clones share the Sentinels' connections, so that the Sentinels do not have to
/// answer each clone.
#[derive(Clone, Debug)]
pub(crate) enum LinkDestination {
    Single(RedisAddress),
    Primary(Arc<SentinelGroup>),
    Cluster(Vec<RedisAddress>),
}

impl LinkDestination {
    pub(crate) fn of(config: &RedisConfig) -> Self {
        match &config.url.target {
            RedisDeployment::Single(address) => Self::Single(address.clone()),
            RedisDeployment::Cluster { seeds } => Self::Cluster(seeds.clone()),
            RedisDeployment::Sentinel { sentinels, service, login } => {
                let sentinels = SentinelGroup::new(service, login, sentinels, config);
                Self::Primary(Arc::new(sentinels))
            }
        }
    }
}

/// The servers of a link.
#[derive(Debug)]
enum LinkNodes {
    One(Arc<RedisNode>),
    Many(RedisCluster),
}

impl RedisLink {
    pub(crate) fn new(config: RedisConfig, to: LinkDestination) -> Self {
        let (lanes, config) = (config.connections, Arc::new(config));
        let one = |route| LinkNodes::One(Arc::new(RedisNode::new(route)));
        let nodes = match to {
            LinkDestination::Single(address) => one(NodeRoute::to(address, config)),
            LinkDestination::Primary(sentinels) => one(NodeRoute::by_sentinels(sentinels, config)),
            LinkDestination::Cluster(seeds) => LinkNodes::Many(RedisCluster::new(seeds, config)),
        };
        Self { nodes, lanes }
    }

    /// Whether the keys of one call have to share a slot.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.nodes, LinkNodes::Many(_))
    }

    /// Runs a script on the node that serves `slot`, which is irrelevant if there is only one node.
    /// Calls on one `lane` go over one connection, in order.
    pub(crate) async fn run(
        &self,
        slot: u16,
        lane: usize,
        call: &ScriptCall,
    ) -> Result<RedisReply, RedisFailure> {
        self.run_over(slot, lane, call, |_| {}).await
    }

    /// The same, and reports the connection to `observe` each time before the call is sent, or `None`
    /// while there is none yet.
    async fn run_over(
        &self,
        slot: u16,
        lane: usize,
        call: &ScriptCall,
        mut observe: impl FnMut(Option<(&Arc<RedisNode>, &Arc<SharedConnection>)>),
    ) -> Result<RedisReply, RedisFailure> {
        let mut attempt = CallAttempt {
            node: self.node(slot).await?,
            asking: false,
            redirects: 0,
            retried: false,
        };
        loop {
            observe(None);
            let connection = self.connection(&attempt.node, lane).await?;
            observe(Some((&attempt.node, &connection)));
            match connection.run(call, attempt.asking).await {
                Ok(reply) => return Ok(reply),
                Err(CallError::Refused(refusal)) => {
                    attempt = self.follow(attempt, refusal, lane, &connection).await?;
                }
                Err(CallError::Broken(failure)) => {
                    return Err(self.record_broken(&attempt.node, lane, failure));
                }
                Err(CallError::Mismatched(failure)) => {
                    attempt
                        .node
                        .lane(lane)
                        .report(&connection, ConnectionFault::Mismatched(failure.clone()));
                    return Err(failure);
                }
            }
        }
    }

    /// How much the node that serves `slot` holds, and what it does when its memory is full. Fails if
    /// the user has no permission to run `INFO`.
    pub(crate) async fn memory(
        &self,
        slot: u16,
        patience: Duration,
    ) -> Result<RedisMemory, RedisFailure> {
        // All sections: only since Redis 7 can a client choose two of them.
        let info = redis::cmd("INFO");
        let reply = self.within(slot, 0, patience, self.send(slot, 0, &info)).await?;
        Ok(RedisMemory::of(&reply))
    }

    /// How many connections each node has.
    pub(crate) const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Records that a caller gave up waiting. After three in a row without an answer, the
    /// connection is replaced.
    pub(crate) fn record_timeout(&self, slot: u16, lane: usize) {
        let node = match &self.nodes {
            LinkNodes::One(node) => Some(Arc::clone(node)),
            LinkNodes::Many(cluster) => cluster.known_node(slot),
        };
        if let Some(node) = node {
            node.lane(lane).record_timeout();
        }
    }

    /// Sends a command that is not a script call, and does not follow redirections.
    async fn send(
        &self,
        slot: u16,
        lane: usize,
        command: &Cmd,
    ) -> Result<RedisReply, RedisFailure> {
        let node = self.node(slot).await?;
        let connection = self.connection(&node, lane).await?;
        connection.send(command, false).await.map_err(|error| match error {
            CallError::Refused(refusal) => refusal.into_failure(),
            CallError::Broken(failure) | CallError::Mismatched(failure) => {
                self.record_broken(&node, lane, failure)
            }
        })
    }

    async fn node(&self, slot: u16) -> Result<Arc<RedisNode>, RedisFailure> {
        match &self.nodes {
            LinkNodes::One(node) => Ok(Arc::clone(node)),
            LinkNodes::Many(cluster) => cluster.node(slot).await,
        }
    }

    async fn connection(
        &self,
        node: &RedisNode,
        lane: usize,
    ) -> Result<Arc<SharedConnection>, RedisFailure> {
        node.lane(lane).connection().await.inspect_err(|_| self.suspect_topology())
    }

    /// Records a connection that failed under a call.
    fn record_broken(&self, node: &RedisNode, lane: usize, failure: RedisFailure) -> RedisFailure {
        if failure.kind == StoreErrorKind::Timeout {
            node.lane(lane).record_timeout();
        }
        self.suspect_topology();
        failure
    }

    /// Checks the topology: a node that fails may have been replaced by another.
    fn suspect_topology(&self) {
        match &self.nodes {
            LinkNodes::One(node) => node.suspect_topology(),
            LinkNodes::Many(cluster) => cluster.request_refresh(),
        }
    }

    /// The next attempt after a refusal, or why there is none. There is one only if the server has said
    /// that it did not run the call.
    async fn follow(
        &self,
        attempt: CallAttempt,
        refusal: RedisRefusal,
        lane: usize,
        connection: &SharedConnection,
    ) -> Result<CallAttempt, RedisFailure> {
        match (refusal, &self.nodes) {
            (RedisRefusal::Moved { slot, to }, LinkNodes::Many(cluster)) => {
                attempt.redirect(cluster.moved(slot, to)?, false)
            }
            (RedisRefusal::Ask { to }, LinkNodes::Many(cluster)) => {
                attempt.redirect(cluster.node_at(to)?, true)
            }
            (RedisRefusal::TryLater(failure), _) => {
                self.suspect_topology();
                let attempt = attempt.retry(failure)?;
                sleep(jitter(SHORT_PAUSE / 2, SHORT_PAUSE)).await;
                Ok(attempt)
            }
            (RedisRefusal::NotPrimary(failure), _) => {
                self.suspect_topology();
                attempt
                    .node
                    .lane(lane)
                    .report(connection, ConnectionFault::Demoted(failure.clone()));
                attempt.retry(failure)
            }
            // Its connections are fine. Only the topology shows whether it is still the primary.
            (RedisRefusal::NoReplicas(failure), _) => {
                self.suspect_topology();
                Err(failure)
            }
            (refusal, _) => Err(refusal.into_failure()),
        }
    }
}

/// Where a call is sent, and how often it has been redirected.
struct CallAttempt {
    node: Arc<RedisNode>,
    /// Whether the call has to be preceded by `ASKING`, because a node redirected it here.
    asking: bool,
    redirects: u32,
    retried: bool,
}

impl CallAttempt {
    fn redirect(self, node: Arc<RedisNode>, asking: bool) -> Result<Self, RedisFailure> {
        if self.redirects == MOST_REDIRECTS {
            let message = format!("redirected more than {MOST_REDIRECTS} times");
            return Err(RedisFailure::not_run(StoreErrorKind::Overloaded, message));
        }
        Ok(Self { node, asking, redirects: self.redirects + 1, ..self })
    }

    /// Another attempt at the same node, once.
    fn retry(self, failure: RedisFailure) -> Result<Self, RedisFailure> {
        match self.retried {
            true => Err(failure),
            false => Ok(Self { retried: true, ..self }),
        }
    }
}

const MOST_REDIRECTS: u32 = 3;
/// The pause before a call is sent again to a server that could not take it: enough for a slot's
/// last keys to move, and only a small part of anyone's deadline.
const SHORT_PAUSE: Duration = Duration::from_millis(2);
