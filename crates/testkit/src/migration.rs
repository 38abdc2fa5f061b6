//! Migrates a slot from one node to another, as operators' tools do.

use crate::cluster::id_of;
use crate::{Cluster, Redis, Reply};

/// The progress of a migration. Each step builds on the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// The new node accepts the slot's keys from clients that send `ASKING`. The old one does not
    /// know yet.
    Importing,
    /// The old node answers `ASK` for keys that it does not have, and accepts no new ones.
    Migrating,
    /// This many keys have moved so far. A command with keys on both sides gets `TRYAGAIN`.
    Moved(usize),
    /// The new node claims the slot. The old one answers `ASK` until it learns about that.
    Taken,
    /// The old node answers `MOVED`. Others may not know yet.
    Given,
    /// Every node knows.
    Done,
}

impl Cluster {
    /// Moves a slot with all its keys to another primary.
    pub fn migrate_slot(&self, slot: u16, to: usize) {
        self.migrate_slot_with(slot, to, |_| {});
    }

    /// Moves a slot with all its keys to another primary, and calls `between` after each step: the
    /// migration pauses while it runs.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub fn migrate_slot_with(&self, slot: u16, to: usize, mut between: impl FnMut(MigrationStep)) {
        let (from, to) = (&self.nodes()[self.node_of_slot(slot)], &self.nodes()[to]);
        if from.port() == to.port() {
            return;
        }
        set_slot(to, slot, &["IMPORTING", &id_of(from)]);
        between(MigrationStep::Importing);
        set_slot(from, slot, &["MIGRATING", &id_of(to)]);
        between(MigrationStep::Migrating);
        move_keys(slot, from, to, &mut between);
        self.announce(slot, from, to, &mut between);
    }

    /// The new node first: if it were last, no node would serve the slot for a moment.
    fn announce(
        &self,
        slot: u16,
        from: &Redis,
        to: &Redis,
        between: &mut impl FnMut(MigrationStep),
    ) {
        let owner = id_of(to);
        set_slot(to, slot, &["NODE", &owner]);
        between(MigrationStep::Taken);
        set_slot(from, slot, &["NODE", &owner]);
        between(MigrationStep::Given);
        let knows = [from.port(), to.port()];
        let others = self.nodes().iter().filter(|node| !knows.contains(&node.port()));
        // Replicas do not accept slot commands: they learn about slots from the others.
        others.filter(|node| is_primary(node)).for_each(|node| {
            set_slot(node, slot, &["NODE", &owner]);
        });
        self.wait_until_stable();
        between(MigrationStep::Done);
    }
}

fn set_slot(node: &Redis, slot: u16, what: &[&str]) {
    let slot = slot.to_string();
    node.command(&[&["CLUSTER", "SETSLOT", &slot], what].concat()).or_panic();
}

/// No new keys arrive in the meantime: the old node redirects them to the new one.
fn move_keys(slot: u16, from: &Redis, to: &Redis, between: &mut impl FnMut(MigrationStep)) {
    let (slot, mut moved) = (slot.to_string(), 0);
    loop {
        let reply = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, BATCH]).or_panic();
        let keys = reply.items();
        if keys.is_empty() {
            return;
        }
        migrate(keys, from, to);
        moved += keys.len();
        between(MigrationStep::Moved(moved));
    }
}

fn migrate(keys: &[Reply], from: &Redis, to: &Redis) {
    let port = to.port().to_string();
    let mut words: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000"];
    if let Some(password) = to.password() {
        words.extend([b"AUTH", password.as_bytes()]);
    }
    words.push(b"KEYS");
    words.extend(keys.iter().map(|key| match key {
        Reply::Bulk(Some(key)) => key.as_slice(),
        other => panic!("no key: {other:?}"),
    }));
    from.command(&words).or_panic();
}

fn is_primary(node: &Redis) -> bool {
    node.role().is_some_and(|role| role == "master")
}

/// Few keys at a time, so that a test sees the slot on two nodes for a while.
const BATCH: &str = "4";
