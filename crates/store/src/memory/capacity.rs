//! How much the store may hold.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// The store's bounds, and how near they are.
///
/// All counters use relaxed ordering: they guard no memory, and the shard locks order everything
/// else.
#[derive(Debug)]
pub(super) struct Capacity {
    max_keys: usize,
    keys: AtomicUsize,
    max_log_bytes: usize,
    log_bytes: AtomicUsize,
    overflowed: AtomicU64,
}

impl Capacity {
    pub(super) fn new(max_keys: usize, max_log_bytes: usize) -> Self {
        Self {
            max_keys,
            keys: AtomicUsize::new(0),
            max_log_bytes,
            log_bytes: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Claims a place for one more key, for as long as the claim is held.
    pub(super) fn claim(&self) -> Result<Claim<'_>, Full> {
        let claim = Claim(self);
        let before = self.keys.fetch_add(1, Ordering::Relaxed);
        if before < self.max_keys { Ok(claim) } else { Err(Full) }
    }

    /// Records that a table has more keys, or fewer.
    pub(super) fn keys_changed(&self, before: usize, after: usize) {
        change(&self.keys, before, after);
    }

    /// Records that logs have grown or shrunk.
    pub(super) fn logs_changed(&self, before: usize, after: usize) {
        change(&self.log_bytes, before, after);
    }

    pub(super) fn logs_are_too_large(&self) -> bool {
        self.log_bytes() > self.max_log_bytes
    }

    pub(super) fn count_overflow(&self) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) const fn max_keys(&self) -> usize {
        self.max_keys
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn log_bytes(&self) -> usize {
        self.log_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
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
pub(super) struct Full;

/// A place reserved for a key that may be about to arrive.
#[derive(Debug)]
pub(super) struct Claim<'a>(&'a Capacity);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.keys_changed(1, 0);
    }
}
