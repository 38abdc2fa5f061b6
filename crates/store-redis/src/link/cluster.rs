//! Finds the node of a slot, and keeps track of which node serves what.

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

/// What is known about a Cluster.
#[derive(Debug)]
struct ClusterTopology {
    config: Arc<RedisConfig>,
    seeds: Vec<RedisAddress>,
    map: watch::Sender<SlotMapState>,
    /// The nodes on the map, and those we were redirected to since it was drawn.
    nodes: Mutex<HashMap<RedisAddress, Arc<RedisNode>>>,
    /// Rung when the map turns out to be wrong.
    bell: Notify,
}

#[derive(Clone, Debug)]
enum SlotMapState {
    /// Nobody has asked for one yet, or the runtime of the callers that did is gone.
    Idle,
    /// Being drawn for the first time.
    Awaited,
    Ready(Arc<SlotMap<RedisNode>>),
    /// There is none, and the last attempt failed.
    Missing(RedisFailure),
}

impl RedisCluster {
    pub(super) fn new(seeds: Vec<RedisAddress>, config: Arc<RedisConfig>) -> Self {
        let map = watch::Sender::new(SlotMapState::Idle);
        let (nodes, bell) = (Mutex::default(), Notify::new());
        let atlas = Arc::new(ClusterTopology { config, seeds, map, nodes, bell });
        Self { topology: atlas, refresher: ScopedTask::default() }
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
                let message = "the Cluster was given up";
                return Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    /// The node that serves a slot, if it is known right away.
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

    /// Has the map redrawn, soon.
    pub(super) fn request_refresh(&self) {
        self.topology.bell.notify_one();
    }
}

impl ClusterTopology {
    /// What a caller gets from the map; nothing if it has to wait for it.
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

    /// Asks one node after the other, those on the map first, until one knows.
    async fn fetch_ranges(&self) -> Result<Vec<SlotRange>, RedisFailure> {
        let mut candidates: Vec<_> = self.nodes.lock().keys().cloned().collect();
        fastrand::shuffle(&mut candidates);
        candidates.truncate(MOST_ASKED);
        candidates.extend(self.seeds.iter().cloned());
        let mut last = RedisFailure::not_run(StoreErrorKind::Misconfigured, "no node is known");
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
        let mut wire = dial_for_questions(address, &login, &self.config).await?;
        let answer = within(&self.config, address, async {
            wire.ask(redis::cmd("CLUSTER").arg("SLOTS")).await
        });
        match answer.await? {
            Ok(reply) => ranges(&reply, address),
            // A server that does not understand the question is not part of a Cluster.
            Err(error) if error.code() == "ERR" => {
                let message = RedisFailure::of_server(&error).message;
                Err(RedisFailure::not_run(StoreErrorKind::Misconfigured, message).at(address))
            }
            Err(error) => Err(RedisFailure::of_server(&error).at(address)),
        }
    }

    /// Redraws the map and drops nodes that have left it.
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
        let atlas = &*self.0;
        let mut backoff = ConnectionBackoff::default();
        loop {
            let next = Instant::now() + REST;
            match atlas.fetch_ranges().await.and_then(|ranges| atlas.update_map(ranges)) {
                Ok(()) => {
                    backoff.reset();
                    let _ = timeout(STALE, atlas.bell.notified()).await;
                    sleep_until(next).await;
                }
                Err(failure) => {
                    backoff.record_failure(failure.kind);
                    // An old map is better than none.
                    if !matches!(*atlas.map.borrow(), SlotMapState::Ready(_)) {
                        atlas.map.send_replace(SlotMapState::Missing(failure));
                    }
                    sleep(backoff.pause()).await;
                }
            }
        }
    }
}

/// The next caller starts another one, on a runtime that is still running.
impl Drop for ClusterRefresher {
    fn drop(&mut self) {
        self.0.map.send_replace(SlotMapState::Idle);
    }
}

/// The most nodes: each has connections.
const MOST_NODES: usize = 1_000;
/// Nodes on the map to ask before falling back to the seeds.
const MOST_ASKED: usize = 5;
/// The pause between two surveys, however often the map turns out to be wrong.
const REST: Duration = Duration::from_secs(1);
/// A map is redrawn after this time even if nobody complained.
const STALE: Duration = Duration::from_secs(60);
