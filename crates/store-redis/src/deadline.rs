//! How long anyone waits for Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest that a decision may take. It may change while decisions are being made.
#[derive(Debug)]
pub(crate) struct Deadline(AtomicU64);

impl Deadline {
    pub(crate) fn new(longest: Duration) -> Arc<Self> {
        let deadline = Self(AtomicU64::new(0));
        deadline.set(longest);
        Arc::new(deadline)
    }

    pub(crate) fn set(&self, longest: Duration) {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}
