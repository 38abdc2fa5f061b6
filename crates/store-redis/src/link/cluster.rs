//! Finds the node of a slot, and keeps track of which node serves what.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreErrorKind;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::dial::{dial_for_questions, login_of, within};
use super::failure::Failure;
use super::node::{Node, Route};
use super::slots::{Range, SlotMap, ranges};
use super::task::Task;
use crate::RedisConfig;
use crate::url::Address;

/// The nodes of a Cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    atlas: Arc<Atlas>,
    surveyor: Task,
}

/// What is known about a Cluster.
#[derive(Debug)]
struct Atlas {
    config: Arc<RedisConfig>,
    seeds: Vec<Address>,
    map: watch::Sender<Map>,
    /// The nodes on the map, and those we were redirected to since it was drawn.
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    /// Rung when the map turns out to be wrong.
    bell: Notify,
}

#[derive(Clone, Debug)]
enum Map {
    /// Nobody has asked for one yet, or the runtime of the callers that did is gone.
    Idle,
    /// Being drawn for the first time.
    Awaited,
    Drawn(Arc<SlotMap<Node>>),
    /// There is none, and the last attempt failed.
    Missing(Failure),
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Address>, config: Arc<RedisConfig>) -> Self {
        let map = watch::Sender::new(Map::Idle);
        let (nodes, bell) = (Mutex::default(), Notify::new());
        let atlas = Arc::new(Atlas { config, seeds, map, nodes, bell });
        Self { atlas, surveyor: Task::default() }
    }

    /// The node that serves a slot.
    pub(super) async fn node(&self, slot: u16) -> Result<Arc<Node>, Failure> {
        if let Some(outcome) = self.atlas.look_up(slot) {
            return outcome;
        }
        let mut maps = self.atlas.map.subscribe();
        loop {
            self.start_if_idle();
            maps.mark_unchanged();
            if let Some(outcome) = self.atlas.look_up(slot) {
                return outcome;
            }
            if maps.changed().await.is_err() {
                let message = "the Cluster was given up";
                return Err(Failure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    /// The node that serves a slot, if it is known right away.
    pub(super) fn known(&self, slot: u16) -> Option<Arc<Node>> {
        self.atlas.look_up(slot)?.ok()
    }

    fn start_if_idle(&self) {
        let won = self.atlas.map.send_if_modified(|map| {
            let idle = matches!(map, Map::Idle);
            if idle {
                *map = Map::Awaited;
            }
            idle
        });
        if won {
            self.surveyor.start(Surveyor(Arc::clone(&self.atlas)).run());
        }
    }

    /// Records that a slot has moved; returns its node.
    pub(super) fn moved(&self, slot: u16, to: Address) -> Result<Arc<Node>, Failure> {
        let node = self.node_at(to)?;
        self.atlas.map.send_if_modified(|map| {
            if let Map::Drawn(map) = map {
                Arc::make_mut(map).set(slot, Arc::clone(&node));
            }
            false
        });
        self.redraw();
        Ok(node)
    }

    /// The node at an address, whether or not it is on the map.
    pub(super) fn node_at(&self, address: Address) -> Result<Arc<Node>, Failure> {
        let node = self.atlas.node_at(address)?;
        node.mark_used();
        Ok(node)
    }

    /// Has the map redrawn, soon.
    pub(super) fn redraw(&self) {
        self.atlas.bell.notify_one();
    }
}

impl Atlas {
    /// What a caller gets from the map; nothing if it has to wait for it.
    fn look_up(&self, slot: u16) -> Option<Result<Arc<Node>, Failure>> {
        match &*self.map.borrow() {
            Map::Drawn(map) => Some(map.get(slot).cloned().ok_or_else(|| {
                self.bell.notify_one();
                let message = format!("no node of the Cluster serves slot {slot}");
                Failure::not_run(StoreErrorKind::Overloaded, message)
            })),
            Map::Missing(failure) => Some(Err(failure.clone())),
            Map::Idle | Map::Awaited => None,
        }
    }

    fn node_at(&self, address: Address) -> Result<Arc<Node>, Failure> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(&address) {
            return Ok(Arc::clone(node));
        }
        if nodes.len() >= MOST_NODES {
            let message = format!("the Cluster has more than {MOST_NODES} nodes");
            return Err(Failure::not_run(StoreErrorKind::Misconfigured, message));
        }
        let route = Route::to(address.clone(), Arc::clone(&self.config));
        let node = Arc::new(Node::new(route));
        nodes.insert(address, Arc::clone(&node));
        Ok(node)
    }

    /// Asks one node after the other, those on the map first, until one knows.
    async fn survey(&self) -> Result<Vec<Range>, Failure> {
        let mut candidates: Vec<_> = self.nodes.lock().keys().cloned().collect();
        fastrand::shuffle(&mut candidates);
        candidates.truncate(MOST_ASKED);
        candidates.extend(self.seeds.iter().cloned());
        let mut last = Failure::not_run(StoreErrorKind::Misconfigured, "no node is known");
        for candidate in candidates {
            match self.ask(&candidate).await {
                Ok(ranges) => return Ok(ranges),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn ask(&self, address: &Address) -> Result<Vec<Range>, Failure> {
        let login = login_of(&self.config).await?;
        let mut wire = dial_for_questions(address, &login, &self.config).await?;
        let answer = within(&self.config, address, async {
            wire.ask(redis::cmd("CLUSTER").arg("SLOTS")).await
        });
        match answer.await? {
            Ok(reply) => ranges(&reply, address),
            // A server that does not understand the question is not part of a Cluster.
            Err(error) if error.code() == "ERR" => {
                let message = Failure::of_server(&error).message;
                Err(Failure::not_run(StoreErrorKind::Misconfigured, message).at(address))
            }
            Err(error) => Err(Failure::of_server(&error).at(address)),
        }
    }

    /// Redraws the map and drops nodes that have left it.
    fn draw(&self, ranges: Vec<Range>) -> Result<(), Failure> {
        let present: HashSet<_> = ranges.iter().map(|range| range.primary.clone()).collect();
        self.nodes.lock().retain(|address, node| node.take_used() || present.contains(address));
        let mut owned = Vec::with_capacity(ranges.len());
        for Range { first, last, primary } in ranges {
            owned.push((first, last, self.node_at(primary)?));
        }
        self.map.send_replace(Map::Drawn(Arc::new(SlotMap::new(owned))));
        Ok(())
    }
}

/// Keeps the map up to date.
struct Surveyor(Arc<Atlas>);

impl Surveyor {
    async fn run(self) {
        let atlas = &*self.0;
        let mut backoff = Backoff::default();
        loop {
            let next = Instant::now() + REST;
            match atlas.survey().await.and_then(|ranges| atlas.draw(ranges)) {
                Ok(()) => {
                    backoff.reset();
                    let _ = timeout(STALE, atlas.bell.notified()).await;
                    sleep_until(next).await;
                }
                Err(failure) => {
                    backoff.failed(failure.kind);
                    // An old map is better than none.
                    if !matches!(*atlas.map.borrow(), Map::Drawn(_)) {
                        atlas.map.send_replace(Map::Missing(failure));
                    }
                    sleep(backoff.pause()).await;
                }
            }
        }
    }
}

/// The next caller starts another one, on a runtime that is still running.
impl Drop for Surveyor {
    fn drop(&mut self) {
        self.0.map.send_replace(Map::Idle);
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
