//! The store's bounds, and how its space is shared between pools of keys.
//!
//! Capacity is counted in keys, and a key claims its room before it is added. A claim that is dropped unused
//! gives the room back, so a settlement that is denied leaves no trace.

use std::sync::atomic::AtomicUsize as Plain;

use tidegate_core::Fingerprint;

use crate::sync::{AtomicUsize, Ordering};

/// A pool can have this many times as many keys as there are free slots: a flood leaves room for others,
/// and the more pools there are, the less each of them gets.
const SHARE: usize = 4;

/// One in this many slots does not count as free in that sense: it is reserved for pools with few keys.
const KEPT: usize = 8;

/// A pool has few keys if it has less than one in this many slots, so that many pools can be flooded
/// before the reserved slots are taken too.
const FEW: usize = 512;

/// The store's bounds and its current size.
///
/// All counters use relaxed ordering: they guard no memory, and the shard locks order everything
/// else.
#[derive(Debug)]
pub(super) struct MemoryCapacity {
    max_keys: usize,
    keys: AtomicUsize,
    /// The keys of each pool. Correctness does not depend on these numbers, so they are plain atomics and
    /// not those of `sync.rs`.
    pools: Box<[Plain]>,
    max_log_bytes: usize,
    log_bytes: AtomicUsize,
    table_bytes: AtomicUsize,
}

impl MemoryCapacity {
    pub(super) fn new(max_keys: usize, max_log_bytes: usize) -> Self {
        Self {
            max_keys,
            keys: AtomicUsize::new(0),
            pools: (0..Fingerprint::POOLS).map(|_| Plain::new(0)).collect(),
            max_log_bytes,
            log_bytes: AtomicUsize::new(0),
            table_bytes: AtomicUsize::new(0),
        }
    }

    /// Claims a slot for one more key of this pool, for as long as the claim is held.
    pub(super) fn claim(&self, pool: u16) -> Result<RoomClaim<'_>, NoRoomError> {
        let claim = RoomClaim(self);
        let before = self.keys.fetch_add(1, Ordering::Relaxed);
        let (most, own) = (self.max_keys, self.pool(pool).load(Ordering::Relaxed));
        let free = (most - most / KEPT).saturating_sub(before);
        let has_few = own < most.div_ceil(FEW) && before < most;
        if own < free.saturating_mul(SHARE) || has_few { Ok(claim) } else { Err(NoRoomError) }
    }

    /// Records that a table has one more key.
    pub(super) fn added(&self, key: Fingerprint) {
        self.keys.fetch_add(1, Ordering::Relaxed);
        self.pool(key.pool()).fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a table has lost a key.
    pub(super) fn removed(&self, key: Fingerprint) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.pool(key.pool()).fetch_sub(1, Ordering::Relaxed);
    }

    fn pool(&self, pool: u16) -> &Plain {
        &self.pools[usize::from(pool) % Fingerprint::POOLS]
    }

    /// Records that logs have grown or shrunk.
    pub(super) fn logs_changed(&self, before: usize, after: usize) {
        change(&self.log_bytes, before, after);
    }

    /// Records that a table has grown or shrunk.
    pub(super) fn tables_changed(&self, before: usize, after: usize) {
        change(&self.table_bytes, before, after);
    }

    pub(super) fn logs_are_too_large(&self) -> bool {
        self.log_bytes() > self.max_log_bytes
    }

    /// Whether logs are too large although they were coarsened: each is as small as it can be.
    pub(super) fn has_no_room_for_logs(&self) -> bool {
        self.log_bytes() / 2 > self.max_log_bytes
    }

    pub(super) const fn max_keys(&self) -> usize {
        self.max_keys
    }

    pub(super) const fn max_log_bytes(&self) -> usize {
        self.max_log_bytes
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn log_bytes(&self) -> usize {
        self.log_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of tables and logs.
    pub(super) fn bytes(&self) -> usize {
        self.table_bytes.load(Ordering::Relaxed).saturating_add(self.log_bytes())
    }
}

fn change(counter: &AtomicUsize, before: usize, after: usize) {
    if after > before {
        counter.fetch_add(after - before, Ordering::Relaxed);
    } else if after < before {
        counter.fetch_sub(before - after, Ordering::Relaxed);
    }
}

/// There is no room for a new key.
#[derive(Debug)]
pub(super) struct NoRoomError;

/// A slot reserved for a key that may be about to be inserted.
#[derive(Debug)]
pub(super) struct RoomClaim<'a>(&'a MemoryCapacity);

impl Drop for RoomClaim<'_> {
    fn drop(&mut self) {
        self.0.keys.fetch_sub(1, Ordering::Relaxed);
    }
}
