//! Assigns each thread one of the parts into which hot counters are divided.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many parts the counters of every decision are divided into. Threads with different parts do not
/// contend for cache lines.
pub(crate) const SLOTS: usize = 8;

/// This thread's part.
pub(crate) fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SLOT: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
    }
    SLOT.try_with(|slot| *slot).unwrap_or(0)
}
