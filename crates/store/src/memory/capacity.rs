//! How much the store may hold.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// The store's bounds, and how near they are.
///
/// Every counter is relaxed: they guard no memory, and the shard locks order everything else.
#[derive(Debug)]
pub(super) struct Capacity {
    max_keys: usize,
    keys: AtomicUsize,
    overflowed: AtomicU64,
    /// What the logs of one shard may take.
    pub(super) heap_budget: usize,
}

impl Capacity {
    pub(super) fn new(max_keys: usize, heap_budget: usize) -> Self {
        Self { max_keys, keys: AtomicUsize::new(0), overflowed: AtomicU64::new(0), heap_budget }
    }

    /// Claims a place for one more key, for as long as the claim is held.
    pub(super) fn claim(&self) -> Result<Claim<'_>, Full> {
        let claim = Claim(self);
        let before = self.keys.fetch_add(1, Ordering::Relaxed);
        if before < self.max_keys { Ok(claim) } else { Err(Full) }
    }

    /// Notes that a table has grown or shrunk.
    pub(super) fn resized(&self, before: usize, after: usize) {
        if after > before {
            self.keys.fetch_add(after - before, Ordering::Relaxed);
        } else if after < before {
            self.keys.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    pub(super) fn count_overflow(&self) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn keys(&self) -> usize {
        // A claim that found no place is not a key.
        self.keys.load(Ordering::Relaxed).min(self.max_keys)
    }

    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

/// The new key found no room.
#[derive(Debug)]
pub(super) struct Full;

/// A place for a key that may be about to come.
#[derive(Debug)]
pub(super) struct Claim<'a>(&'a Capacity);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.resized(1, 0);
    }
}
