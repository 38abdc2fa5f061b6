//! How far along something is, for anyone who wants to watch.

use std::sync::atomic::{AtomicU64, Ordering};

/// Incremented by workers, and read by an observer at its own pace, so that work neither waits for
/// a terminal nor reads a clock.
///
/// ```
/// use tidegate_sim::WorkProgress;
///
/// let progress = WorkProgress::default();
/// progress.expect(200);
/// progress.add(50);
/// assert_eq!(progress.share(), Some(0.25));
/// ```
#[derive(Debug, Default)]
pub struct WorkProgress {
    done: AtomicU64,
    total: AtomicU64,
}

impl WorkProgress {
    /// This much more will come.
    pub fn add_expected(&self, more: u64) {
        self.total.fetch_add(more, Ordering::Relaxed);
    }

    /// This much more is done.
    pub fn add(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    /// What is done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The share of the expected work that is done; `None` if unknown.
    pub fn share(&self) -> Option<f64> {
        match self.total.load(Ordering::Relaxed) {
            0 => None,
            total => Some((self.done() as f64 / total as f64).min(1.0)),
        }
    }
}
