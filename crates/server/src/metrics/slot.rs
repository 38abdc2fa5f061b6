//! Which part of a counter is this thread's.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Into how many parts what every decision touches is divided. Threads that have different parts do
/// not wait for each other's writes.
pub(crate) const SLOTS: usize = 8;

/// This thread's part.
pub(crate) fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SLOT: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
    }
    SLOT.try_with(|slot| *slot).unwrap_or(0)
}
