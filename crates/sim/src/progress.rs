//! The progress of long work, for a progress bar.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that workers increment and an observer reads at its own pace, so that work neither waits
/// for a terminal nor reads a clock.
///
/// ```
/// use tidegate_sim::WorkProgress;
///
/// let progress = WorkProgress::default();
/// progress.add_expected(200);
/// progress.add(50);
/// assert_eq!(progress.share(), Some(0.25));
/// ```
#[derive(Debug, Default)]
pub struct WorkProgress {
    done: AtomicU64,
    total: AtomicU64,
}

impl WorkProgress {
    /// Adds expected work.
    pub fn add_expected(&self, more: u64) {
        self.total.fetch_add(more, Ordering::Relaxed);
    }

    /// Adds finished work.
    pub fn add(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    /// The finished work.
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
