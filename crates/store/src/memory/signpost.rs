//! Where a key's memory will be, told before its lock is held.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use branches::prefetch_write_data;
use tidegate_core::Fingerprint;

/// Into every level of the cache: the memory is wanted at once.
const NEAREST: i32 = 0;

/// Points to the slots of one table.
///
/// A decision needs two pieces of memory that another core may have written last: the lock and
/// the slot behind it. Asked for one after the other, each is waited for. Asked for beforehand,
/// both travel while the clock is read and the lock is taken.
///
/// Nothing is decided by a signpost, and what it points to is never read through it. One that is
/// out of date costs a wasted request for memory.
#[derive(Debug, Default)]
pub(super) struct Signpost {
    address: AtomicUsize,
    slots: AtomicUsize,
    slot_bytes: AtomicUsize,
}

impl Signpost {
    /// After the table has moved.
    pub(super) fn point_to<S>(&self, slots: &[S]) {
        self.address.store(slots.as_ptr().addr(), Ordering::Relaxed);
        self.slots.store(slots.len(), Ordering::Relaxed);
        self.slot_bytes.store(size_of::<S>(), Ordering::Relaxed);
    }

    /// Asks for the slot at which the search for `key` begins.
    #[inline]
    pub(super) fn fetch(&self, key: Fingerprint) {
        let home = home(key, self.slots.load(Ordering::Relaxed));
        let offset = home.wrapping_mul(self.slot_bytes.load(Ordering::Relaxed));
        let address = self.address.load(Ordering::Relaxed).wrapping_add(offset);
        prefetch_write_data::<u8, NEAREST>(ptr::without_provenance(address));
    }
}

/// Asks for what is about to be written.
#[inline]
pub(super) fn fetch<T>(place: &T) {
    prefetch_write_data::<T, NEAREST>(ptr::from_ref(place));
}

/// The first slot in which a key may be: the fingerprint's upper half, scaled from 2^64 to the
/// number of slots.
#[inline]
pub(super) fn home(key: Fingerprint, slots: usize) -> usize {
    ((u128::from(key.high()) * slots as u128) >> 64) as usize
}
