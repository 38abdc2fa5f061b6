//! Which part of a counter belongs to this thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many parts the counters that every decision touches are divided into. Threads with different
/// parts do not wait for each other's writes.
pub(crate) const SLOTS: usize = 8;

/// This thread's part.
pub(crate) fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SLOT: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
    }
    SLOT.try_with(|slot| *slot).unwrap_or(0)
}
