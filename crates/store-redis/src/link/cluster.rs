//! A Cluster: finds the node of a slot, and keeps the slot map up to date.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreErrorKind;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::backoff::ConnectionBackoff;
use super::dial::{dial_for_questions, login_of, within};
use super::failure::RedisFailure;
use super::node::{NodeRoute, RedisNode};
use super::scoped_task::ScopedTask;
use super::slot_map::{SlotMap, SlotRange, ranges};
use crate::RedisConfig;
use crate::url::RedisAddress;

/// The nodes of a Cluster.
#[derive(Debug)]
pub(super) struct RedisCluster {
    topology: Arc<ClusterTopology>,
    refresher: ScopedTask,
}

/// The known nodes and slots of a Cluster.
#[derive(Debug)]
struct ClusterTopology {
    config: Arc<RedisConfig>,
    seeds: Vec<RedisAddress>,
    map: watch::Sender<SlotMapState>,
    /// The nodes on the map, and those that calls were redirected to since the map was fetched.
    nodes: Mutex<HashMap<RedisAddress, Arc<RedisNode>>>,
    /// Notified when the map turns out to be wrong.
    bell: Notify,
}

/// The slot map, or why there is none.
#[derive(Clone, Debug)]
enum SlotMapState {
    /// No caller has needed a map yet, or the runtime of those that did has ended.
    Idle,
    /// The map is being fetched for the first time.
    Awaited,
    Ready(Arc<SlotMap<RedisNode>>),
    /// There is no map, because the last attempt to fetch one failed.
    Missing(RedisFailure),
}

impl RedisCluster {
    pub(super) fn new(seeds: Vec<RedisAddress>, config: Arc<RedisConfig>) -> Self {
        let map = watch::Sender::new(SlotMapState::Idle);
        let (nodes, bell) = (Mutex::default(), Notify::new());
        let topology = Arc::new(ClusterTopology { config, seeds, map, nodes, bell });
        Self { topology, refresher: ScopedTask::default() }
    }

    /// The node that serves a slot.
    pub(super) async fn node(&self, slot: u16) -> Result<Arc<RedisNode>, RedisFailure> {
        if let Some(outcome) = self.topology.look_up(slot) {
            return outcome;
        }
        let mut maps = self.topology.map.subscribe();
        loop {
            self.start_if_idle();
            maps.mark_unchanged();
            if let Some(outcome) = self.topology.look_up(slot) {
                return outcome;
            }
            if maps.changed().await.is_err() {
                let message = "the Cluster's client was shut down";
                return Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    /// The node that serves a slot, if it is known without waiting.
    pub(super) fn known_node(&self, slot: u16) -> Option<Arc<RedisNode>> {
        self.topology.look_up(slot)?.ok()
    }

    fn start_if_idle(&self) {
        let won = self.topology.map.send_if_modified(|map| {
            let idle = matches!(map, SlotMapState::Idle);
            if idle {
                *map = SlotMapState::Awaited;
            }
            idle
        });
        if won {
            self.refresher.start(ClusterRefresher(Arc::clone(&self.topology)).run());
        }
    }

    /// Records that a slot has moved; returns its node.
    pub(super) fn moved(
        &self,
        slot: u16,
        to: RedisAddress,
    ) -> Result<Arc<RedisNode>, RedisFailure> {
        let node = self.node_at(to)?;
        self.topology.map.send_if_modified(|map| {
            if let SlotMapState::Ready(map) = map {
                Arc::make_mut(map).set(slot, Arc::clone(&node));
            }
            false
        });
        self.request_refresh();
        Ok(node)
    }

    /// The node at an address, whether or not it is on the map.
    pub(super) fn node_at(&self, address: RedisAddress) -> Result<Arc<RedisNode>, RedisFailure> {
        let node = self.topology.node_at(address)?;
        node.mark_used();
        Ok(node)
    }

    /// Has the map fetched again, soon.
    pub(super) fn request_refresh(&self) {
        self.topology.bell.notify_one();
    }
}

impl ClusterTopology {
    /// What a caller gets from the map; `None` if it has to wait for one.
    fn look_up(&self, slot: u16) -> Option<Result<Arc<RedisNode>, RedisFailure>> {
        match &*self.map.borrow() {
            SlotMapState::Ready(map) => Some(map.get(slot).cloned().ok_or_else(|| {
                self.bell.notify_one();
                let message = format!("no node of the Cluster serves slot {slot}");
                RedisFailure::not_run(StoreErrorKind::Overloaded, message)
            })),
            SlotMapState::Missing(failure) => Some(Err(failure.clone())),
            SlotMapState::Idle | SlotMapState::Awaited => None,
        }
    }

    fn node_at(&self, address: RedisAddress) -> Result<Arc<RedisNode>, RedisFailure> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(&address) {
            return Ok(Arc::clone(node));
        }
        if nodes.len() >= MOST_NODES {
            let message = format!("the Cluster has more than {MOST_NODES} nodes");
            return Err(RedisFailure::not_run(StoreErrorKind::Misconfigured, message));
        }
        let route = NodeRoute::to(address.clone(), Arc::clone(&self.config));
        let node = Arc::new(RedisNode::new(route));
        nodes.insert(address, Arc::clone(&node));
        Ok(node)
    }

    /// Queries one node after the other, known nodes first, until one answers.
    async fn fetch_ranges(&self) -> Result<Vec<SlotRange>, RedisFailure> {
        let mut candidates: Vec<_> = self.nodes.lock().keys().cloned().collect();
        fastrand::shuffle(&mut candidates);
        candidates.truncate(MOST_QUERIED);
        candidates.extend(self.seeds.iter().cloned());
        let mut last =
            RedisFailure::not_run(StoreErrorKind::Misconfigured, "no node of the Cluster is known");
        for candidate in candidates {
            match self.ask(&candidate).await {
                Ok(ranges) => return Ok(ranges),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn ask(&self, address: &RedisAddress) -> Result<Vec<SlotRange>, RedisFailure> {
        let login = login_of(&self.config).await?;
        let mut connection = dial_for_questions(address, &login, &self.config).await?;
        let answer = within(&self.config, address, async {
            connection.ask(redis::cmd("CLUSTER").arg("SLOTS")).await
        });
        match answer.await? {
            Ok(reply) => ranges(&reply, address),
            // A server that does not understand the command is not part of a Cluster.
            Err(error) if error.code() == "ERR" => {
                let message = RedisFailure::of_server(&error).message;
                Err(RedisFailure::not_run(StoreErrorKind::Misconfigured, message).at(address))
            }
            Err(error) => Err(RedisFailure::of_server(&error).at(address)),
        }
    }

    /// Replaces the map, and drops nodes that are no longer on it.
    fn update_map(&self, ranges: Vec<SlotRange>) -> Result<(), RedisFailure> {
        let present: HashSet<_> = ranges.iter().map(|range| range.primary.clone()).collect();
        self.nodes.lock().retain(|address, node| node.take_used() || present.contains(address));
        let mut owned = Vec::with_capacity(ranges.len());
        for SlotRange { first, last, primary } in ranges {
            owned.push((first, last, self.node_at(primary)?));
        }
        self.map.send_replace(SlotMapState::Ready(Arc::new(SlotMap::new(owned))));
        Ok(())
    }
}

/// Keeps the map up to date.
struct ClusterRefresher(Arc<ClusterTopology>);

impl ClusterRefresher {
    async fn run(self) {
        let topology = &*self.0;
        let mut backoff = ConnectionBackoff::default();
        loop {
            let next = Instant::now() + REST;
            match topology.fetch_ranges().await.and_then(|ranges| topology.update_map(ranges)) {
                Ok(()) => {
                    backoff.reset();
                    let _ = timeout(STALE, topology.bell.notified()).await;
                    sleep_until(next).await;
                }
                Err(failure) => {
                    backoff.record_failure(failure.kind);
                    // An old map is better than none.
                    if !matches!(*topology.map.borrow(), SlotMapState::Ready(_)) {
                        topology.map.send_replace(SlotMapState::Missing(failure));
                    }
                    sleep(backoff.pause()).await;
                }
            }
        }
    }
}

/// Lets the next caller start another refresher, on a runtime that is still running.
impl Drop for ClusterRefresher {
    fn drop(&mut self) {
        self.0.map.send_replace(SlotMapState::Idle);
    }
}

/// The most nodes of a Cluster: each has connections.
const MOST_NODES: usize = 1_000;
/// How many known nodes are queried before the seeds.
const MOST_QUERIED: usize = 5;
/// The least time between two refreshes, however often the map turns out to be wrong.
const REST: Duration = Duration::from_secs(1);
/// A map is refreshed after this time even if it never turned out to be wrong.
const STALE: Duration = Duration::from_secs(60);
