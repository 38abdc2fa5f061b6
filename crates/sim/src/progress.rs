//! How far something is, for whoever wants to watch it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counted up by those who work, and looked at by somebody else, at their own pace: so that work
/// neither waits for a terminal nor reads a clock.
///
/// ```
/// use tidegate_sim::Progress;
///
/// let progress = Progress::default();
/// progress.expect(200);
/// progress.add(50);
/// assert_eq!(progress.share(), Some(0.25));
/// ```
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// So much more will come.
    pub fn expect(&self, more: u64) {
        self.total.fetch_add(more, Ordering::Relaxed);
    }

    /// So much more is done.
    pub fn add(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    /// What is done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The share that is done, of what is expected; `None` where nobody knows.
    pub fn share(&self) -> Option<f64> {
        match self.total.load(Ordering::Relaxed) {
            0 => None,
            total => Some((self.done() as f64 / total as f64).min(1.0)),
        }
    }
}
