//! A Redis Cluster: servers that share the slots.

use std::collections::BTreeSet;

use crate::redis::fields_of;
use crate::setup::{Kind, RedisBuilder};
use crate::slots::SLOTS;
use crate::wait::{MORE_PATIENCE, wait_until};
use crate::{Proxy, Redis, Reply};

/// Builds a [`Cluster`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterBuilder {
    primaries: usize,
    replicas: usize,
    wired: bool,
    server: RedisBuilder,
}

impl ClusterBuilder {
    /// Puts a [`Proxy`] between clients and each node. See [`Cluster::wire`].
    pub fn wired(self) -> Self {
        Self { wired: true, ..self }
    }

    /// How many replicas each primary has. Defaults to none.
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// A line of `redis.conf` for every node. See [`RedisBuilder::arg`].
    pub fn arg(self, name: &str, value: &str) -> Self {
        Self { server: self.server.arg(name, value), ..self }
    }

    /// The password of every node.
    pub fn password(self, password: &str) -> Self {
        Self { server: self.server.password(password), ..self }
    }

    /// Starts them all, and waits until they agree which node has which slots.
    pub fn start(self) -> Cluster {
        assert!(self.primaries > 0, "a cluster needs a node");
        let count = self.primaries * (1 + self.replicas);
        let (mut nodes, mut wires) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut node = self.server.clone();
            if self.wired {
                let (behind, wire) = Proxy::before(node, "cluster-announce");
                node = behind;
                wires.push(wire);
            }
            nodes.push(node.start());
        }
        let cluster = Cluster { nodes, wires, primaries: self.primaries };
        cluster.share_slots();
        cluster.introduce();
        cluster.assign_replicas();
        wait_until("the nodes to agree", MORE_PATIENCE, || cluster.is_stable());
        cluster
    }
}

/// Primaries that share the slots evenly, in order, and their replicas.
///
/// A node that is silent for a second is considered dead. Nodes are identified by their index in
/// [`nodes`](Self::nodes).
#[derive(Debug)]
pub struct Cluster {
    /// The primaries first; then, in turn, a replica of each.
    nodes: Vec<Redis>,
    /// The proxies of the nodes, if they are wired.
    wires: Vec<Proxy>,
    primaries: usize,
}

impl Cluster {
    /// This many primaries, without replicas.
    pub fn start(primaries: usize) -> Self {
        Self::builder(primaries).start()
    }

    /// The same with more options.
    pub fn builder(primaries: usize) -> ClusterBuilder {
        let server = Redis::builder().kind(Kind::Cluster).arg("cluster-node-timeout", "1000");
        ClusterBuilder { primaries, replicas: 0, wired: false, server }
    }

    /// The nodes: those that were primaries at first, and then their replicas.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The nodes that were primaries at first.
    pub fn primaries(&self) -> &[Redis] {
        &self.nodes[..self.primaries]
    }

    /// The proxy through which clients reach a node.
    ///
    /// # Panics
    ///
    /// If the cluster was not built [wired](ClusterBuilder::wired).
    pub fn wire(&self, index: usize) -> &Proxy {
        &self.wires[index]
    }

    fn port_of(&self, index: usize) -> u16 {
        self.wires.get(index).map_or_else(|| self.nodes[index].port(), Proxy::port)
    }

    /// Where clients find it: `redis+cluster://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3`.
    pub fn url(&self) -> String {
        let password = self.nodes[0].password();
        let login = password.map_or_else(String::new, |password| format!(":{password}@"));
        let ports = (0..self.nodes.len()).map(|index| self.port_of(index));
        let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+cluster://{login}{}", hosts.join(","))
    }

    /// The slot of a key. See [`slot_of`](crate::slot_of).
    pub fn slot_of(key: &[u8]) -> u16 {
        crate::slot_of(key)
    }

    /// The node that serves a slot, according to the first node that answers. Waits while none
    /// does, as happens while a replica takes over.
    pub fn node_of_slot(&self, slot: u16) -> usize {
        let mut found = None;
        wait_until("a node that serves the slot", MORE_PATIENCE, || {
            found = self.find_node_of_slot(slot);
            found.is_some()
        });
        found.expect("we waited for it")
    }

    fn find_node_of_slot(&self, slot: u16) -> Option<usize> {
        let port = self.nodes.iter().find_map(|node| self.serves(node, slot))?;
        (0..self.nodes.len()).find(|index| self.port_of(*index) == port)
    }

    /// The port of the node that serves a slot, as one node sees it.
    pub fn serves(&self, node: &Redis, slot: u16) -> Option<u16> {
        let ranges = slot_map(node)?;
        let range = ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        range.map(|range| range.port)
    }

    /// Waits until every node reports that the cluster is up, and all have the same map of slots.
    pub fn wait_until_stable(&self) {
        wait_until("the cluster to settle", MORE_PATIENCE, || self.is_stable());
    }

    fn is_stable(&self) -> bool {
        let first = slot_map(&self.nodes[0]);
        first.as_ref().is_some_and(|map| covered(map) == u32::from(SLOTS))
            && self.nodes.iter().all(|node| self.says_ok(node) && slot_map(node) == first)
            && self.nodes.iter().all(is_in_sync)
    }

    fn says_ok(&self, node: &Redis) -> bool {
        let Ok(reply) = node.try_command(&["CLUSTER", "INFO"]) else { return false };
        let info = fields_of(&reply.text());
        info.get("cluster_state").is_some_and(|state| state == "ok")
            && info["cluster_known_nodes"] == self.nodes.len().to_string()
    }

    fn share_slots(&self) {
        for (index, node) in self.primaries().iter().enumerate() {
            let start = |index| index * usize::from(SLOTS) / self.primaries;
            let (first, last) = (start(index).to_string(), (start(index + 1) - 1).to_string());
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).or_panic();
        }
        // Different epochs from the start: nodes with the same epoch spend a while resolving that.
        for (epoch, node) in (1..).zip(&self.nodes) {
            let epoch: u32 = epoch;
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]).or_panic();
        }
    }

    fn introduce(&self) {
        let (first, others) = self.nodes.split_first().expect("a node");
        for node in others {
            let (port, bus) = (node.port().to_string(), node.bus_port().to_string());
            first.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).or_panic();
        }
    }

    fn assign_replicas(&self) {
        for (index, replica) in self.nodes[self.primaries..].iter().enumerate() {
            let primary = id_of(&self.nodes[index % self.primaries]);
            // It does not know its primary until the gossip has reached it.
            wait_until("a replica to know its primary", MORE_PATIENCE, || {
                replica.command(&["CLUSTER", "REPLICATE", &primary]).is_ok()
            });
        }
    }
}

/// The name that a node has in its cluster.
pub(crate) fn id_of(node: &Redis) -> String {
    node.command(&["CLUSTER", "MYID"]).or_panic().text()
}

/// Whether a replica is in sync with its primary. A primary trivially is.
fn is_in_sync(node: &Redis) -> bool {
    let info = node.try_info("replication");
    info.get("role").is_some_and(|role| role == "master" || info["master_link_status"] == "up")
}

/// Slots that one primary serves.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    first: u16,
    last: u16,
    port: u16,
}

/// Which node serves what, as one node sees it; `None` if it does not answer.
fn slot_map(node: &Redis) -> Option<BTreeSet<Range>> {
    let reply = node.try_command(&["CLUSTER", "SLOTS"]).ok()?;
    Some(reply.items().iter().map(range_of).collect())
}

fn range_of(reply: &Reply) -> Range {
    let number = |reply: &Reply| u16::try_from(reply.integer()).expect("a slot or a port");
    let [first, last, primary, ..] = reply.items() else { panic!("no slot range: {reply:?}") };
    Range { first: number(first), last: number(last), port: number(&primary.items()[1]) }
}

fn covered(map: &BTreeSet<Range>) -> u32 {
    map.iter().map(|range| u32::from(range.last - range.first) + 1).sum()
}
