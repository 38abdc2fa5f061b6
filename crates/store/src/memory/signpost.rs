//! Prefetches the memory of a key before its shard's lock is held.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use branches::{prefetch_read_data, prefetch_write_data};
use tidegate_core::Fingerprint;

/// Prefetch into every level of the cache: the memory is needed immediately.
const NEAREST: i32 = 0;

/// A cache line in bytes, on nearly every processor.
const LINE: usize = 64;

/// Enough for most searches: tables are at most four fifths full, and a slot has 32 bytes or 40.
const LINES: usize = 3;

/// Points to the slots of one table.
///
/// A decision needs two pieces of memory that another core may have written last: the lock and the
/// slot behind it. Fetched one after the other, each costs a wait. Prefetched, both arrive while the
/// clock is read and the lock is taken.
///
/// A signpost decides nothing, and what it points to is never read through it. A stale one costs a
/// wasted prefetch.
#[derive(Debug, Default)]
pub(super) struct Signpost {
    address: AtomicUsize,
    slots: AtomicUsize,
    slot_bytes: AtomicUsize,
}

impl Signpost {
    /// Updates the signpost after the table has moved.
    pub(super) fn point_to<S>(&self, slots: &[S]) {
        self.address.store(slots.as_ptr().addr(), Ordering::Relaxed);
        self.slots.store(slots.len(), Ordering::Relaxed);
        self.slot_bytes.store(size_of::<S>(), Ordering::Relaxed);
    }

    /// Prefetches the slot at which the search for `key` begins, and the lines after it: half of the
    /// slots span two cache lines, and half of the keys are in a later slot.
    #[inline]
    pub(super) fn fetch(&self, key: Fingerprint) {
        let home = home_slot(key, self.slots.load(Ordering::Relaxed));
        let offset = home.wrapping_mul(self.slot_bytes.load(Ordering::Relaxed));
        let address = self.address.load(Ordering::Relaxed).wrapping_add(offset);
        prefetch_write_data::<u8, NEAREST>(ptr::without_provenance(address));
        for line in 1..LINES {
            let address = address.wrapping_add(line * LINE);
            prefetch_read_data::<u8, NEAREST>(ptr::without_provenance(address));
        }
    }
}

/// Prefetches memory that is about to be written.
#[inline]
pub(super) fn fetch<T>(target: &T) {
    prefetch_write_data::<T, NEAREST>(ptr::from_ref(target));
}

/// The first slot in which a key can be: the fingerprint's upper half, scaled from 2^64 to the
/// number of slots.
#[inline]
pub(super) fn home_slot(key: Fingerprint, slots: usize) -> usize {
    ((u128::from(key.high()) * slots as u128) >> 64) as usize
}
