//! The only module that knows the `redis` crate.
//!
//! A [`Link`] runs scripts on the server that has their keys. Each server has a few connections,
//! the [lanes](lane); each lane has a [supervisor] that makes its connection, replaces it when it
//! fails or grows old, and turns callers away while there is none. Sentinels and Clusters are
//! handled by our own code ([sentinel], [cluster]): the client library's is wrong for counters,
//! since it resends what may already have run.

mod backoff;
mod bounded;
mod call;
mod cluster;
mod dial;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod lane;
mod live;
mod memory;
mod node;
mod reply;
mod sentinel;
mod slots;
mod supervisor;
mod task;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub(crate) use call::{Call, Script};
pub(crate) use failure::Failure;
pub(crate) use memory::Memory;
pub(crate) use reply::Reply;

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tidegate_store::StoreErrorKind;
use tokio::time::sleep;

use self::backoff::jitter;
use self::cluster::Cluster;
use self::failure::Refusal;
use self::live::{Fault, Live, Trouble};
use self::node::{Node, Route};
use self::sentinel::Sentinels;
use crate::RedisConfig;
use crate::url::{Address, Place};

/// Runs scripts on Redis, whatever its deployment.
///
/// Nothing happens before the first call. Connections are then kept up by tasks on the runtime that
/// made that call, and end when this is dropped.
///
/// A call is sent again only if it provably did not run. It is up to the caller to bound the wait:
/// to give up, drop the future and report it with [`timed_out`](Self::timed_out), or a connection
/// that hangs is never replaced. [`run_within`](Self::run_within) does both.
#[derive(Debug)]
pub(crate) struct Link {
    nodes: Nodes,
    lanes: usize,
}

/// Where a link leads. Copies lead there together: they share the Sentinels, which would otherwise
/// have to answer each of them.
#[derive(Clone, Debug)]
pub(crate) enum Destination {
    Single(Address),
    Primary(Arc<Sentinels>),
    Cluster(Vec<Address>),
}

impl Destination {
    pub(crate) fn of(config: &RedisConfig) -> Self {
        match &config.target.place {
            Place::Single(address) => Self::Single(address.clone()),
            Place::Cluster { seeds } => Self::Cluster(seeds.clone()),
            Place::Sentinel { sentinels, service, login } => {
                let sentinels = Sentinels::new(service, login, sentinels, config);
                Self::Primary(Arc::new(sentinels))
            }
        }
    }
}

#[derive(Debug)]
enum Nodes {
    One(Arc<Node>),
    Many(Cluster),
}

impl Link {
    pub(crate) fn new(config: RedisConfig, to: Destination) -> Self {
        let (lanes, config) = (config.connections, Arc::new(config));
        let one = |route| Nodes::One(Arc::new(Node::new(route)));
        let nodes = match to {
            Destination::Single(address) => one(Route::to(address, config)),
            Destination::Primary(sentinels) => one(Route::by_sentinels(sentinels, config)),
            Destination::Cluster(seeds) => Nodes::Many(Cluster::new(seeds, config)),
        };
        Self { nodes, lanes }
    }

    /// Whether the keys of one call have to share a slot.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.nodes, Nodes::Many(_))
    }

    /// Runs a script on the node that serves `slot`, which is irrelevant if there is only one node.
    /// Calls on one `lane` go over one connection, in order.
    pub(crate) async fn run(&self, slot: u16, lane: usize, call: &Call) -> Result<Reply, Failure> {
        self.run_over(slot, lane, call, |_| {}).await
    }

    /// The same, and tells over which connection before the call is sent, each time that it is; or
    /// that there is none yet.
    async fn run_over(
        &self,
        slot: u16,
        lane: usize,
        call: &Call,
        mut tell: impl FnMut(Option<(&Arc<Node>, &Arc<Live>)>),
    ) -> Result<Reply, Failure> {
        let mut course =
            Course { node: self.node(slot).await?, ask: false, turns: 0, retried: false };
        loop {
            tell(None);
            let live = self.live(&course.node, lane).await?;
            tell(Some((&course.node, &live)));
            match live.run(call, course.ask).await {
                Ok(reply) => return Ok(reply),
                Err(Trouble::Refused(refusal)) => {
                    course = self.follow(course, refusal, lane, &live).await?;
                }
                Err(Trouble::Broken(failure)) => {
                    return Err(self.broken(&course.node, lane, failure));
                }
                Err(Trouble::Crossed(failure)) => {
                    course.node.lane(lane).report(&live, Fault::Crossed(failure.clone()));
                    return Err(failure);
                }
            }
        }
    }

    /// What the node that serves `slot` holds, and what it does when its memory is full. The user
    /// may lack permission to ask, which is an error like any other.
    pub(crate) async fn memory(&self, slot: u16, patience: Duration) -> Result<Memory, Failure> {
        // All of it: asking for two sections at once has been possible only since Redis 7.
        let info = redis::cmd("INFO");
        let reply = self.within(slot, 0, patience, self.send(slot, 0, &info)).await?;
        Ok(Memory::of(&reply))
    }

    /// How many connections each node has.
    pub(crate) const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Records that a caller gave up waiting. After three in a row without an answer, the
    /// connection is replaced.
    pub(crate) fn timed_out(&self, slot: u16, lane: usize) {
        let node = match &self.nodes {
            Nodes::One(node) => Some(Arc::clone(node)),
            Nodes::Many(cluster) => cluster.known(slot),
        };
        if let Some(node) = node {
            node.lane(lane).timed_out();
        }
    }

    /// Sends a command that is not a script call, and does not follow redirections.
    async fn send(&self, slot: u16, lane: usize, command: &Cmd) -> Result<Reply, Failure> {
        let node = self.node(slot).await?;
        let live = self.live(&node, lane).await?;
        live.send(command, false).await.map_err(|trouble| match trouble {
            Trouble::Refused(refusal) => refusal.into_failure(),
            Trouble::Broken(failure) | Trouble::Crossed(failure) => {
                self.broken(&node, lane, failure)
            }
        })
    }

    async fn node(&self, slot: u16) -> Result<Arc<Node>, Failure> {
        match &self.nodes {
            Nodes::One(node) => Ok(Arc::clone(node)),
            Nodes::Many(cluster) => cluster.node(slot).await,
        }
    }

    async fn live(&self, node: &Node, lane: usize) -> Result<Arc<Live>, Failure> {
        node.lane(lane).live().await.inspect_err(|_| self.doubt())
    }

    /// Records a connection that failed under a call.
    fn broken(&self, node: &Node, lane: usize, failure: Failure) -> Failure {
        if failure.kind == StoreErrorKind::Timeout {
            node.lane(lane).timed_out();
        }
        self.doubt();
        failure
    }

    /// A node that fails may have been replaced by another.
    fn doubt(&self) {
        match &self.nodes {
            Nodes::One(node) => node.doubt(),
            Nodes::Many(cluster) => cluster.redraw(),
        }
    }

    /// What to do after a refusal: where to send the call next, or why to give up. Whenever it goes
    /// on, the server has said that it did not run the call.
    async fn follow(
        &self,
        course: Course,
        refusal: Refusal,
        lane: usize,
        live: &Live,
    ) -> Result<Course, Failure> {
        match (refusal, &self.nodes) {
            (Refusal::Moved { slot, to }, Nodes::Many(cluster)) => {
                course.turn(cluster.moved(slot, to)?, false)
            }
            (Refusal::Ask { to }, Nodes::Many(cluster)) => course.turn(cluster.node_at(to)?, true),
            (Refusal::NotNow(failure), _) => {
                self.doubt();
                let course = course.retry(failure)?;
                sleep(jitter(SHORT_PAUSE / 2, SHORT_PAUSE)).await;
                Ok(course)
            }
            (Refusal::NotPrimary(failure), _) => {
                self.doubt();
                course.node.lane(lane).report(live, Fault::Demoted(failure.clone()));
                course.retry(failure)
            }
            // Its connections are as good as any. Whether it is still the primary, others know.
            (Refusal::Forsaken(failure), _) => {
                self.doubt();
                Err(failure)
            }
            (refusal, _) => Err(refusal.into_failure()),
        }
    }
}

/// Where a call is sent, and how often it has been redirected.
struct Course {
    node: Arc<Node>,
    /// Whether the node has to be told that we were redirected there.
    ask: bool,
    turns: u32,
    retried: bool,
}

impl Course {
    fn turn(self, node: Arc<Node>, ask: bool) -> Result<Self, Failure> {
        if self.turns == MOST_TURNS {
            let message = format!("sent on more than {MOST_TURNS} times");
            return Err(Failure::not_run(StoreErrorKind::Overloaded, message));
        }
        Ok(Self { node, ask, turns: self.turns + 1, ..self })
    }

    /// To the same node, once.
    fn retry(self, failure: Failure) -> Result<Self, Failure> {
        match self.retried {
            true => Err(failure),
            false => Ok(Self { retried: true, ..self }),
        }
    }
}

const MOST_TURNS: u32 = 3;
/// The pause before a call is sent again to a server that could not take it: enough for a slot's
/// last keys to move, and only a small part of anyone's deadline.
const SHORT_PAUSE: Duration = Duration::from_millis(2);
