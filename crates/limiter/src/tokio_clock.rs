//! A clock that follows tokio's time, for tests that pause it.

use tidegate_core::{Span, Timestamp};
use tidegate_store::{Clock, SystemClock};
use tokio::time::Instant;

/// A clock that follows tokio's time: where a test pauses and advances that, the limits follow.
///
/// With `#[tokio::test(start_paused = true)]`, timers, [`until_ready`](crate::Limiter::until_ready) and the limits
/// then share one time. Outside of a paused runtime it runs like the [`SystemClock`].
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limiter, MemoryStore, TokioClock};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::builder().clock(TokioClock::new()).build();
/// let limiter = Limiter::builder().limit("1/minute burst 1").store(store).build()?;
///
/// assert!(limiter.check("alice").await.is_allowed());
/// assert!(!limiter.check("alice").await.is_allowed());
/// tokio::time::advance(Duration::from_secs(60)).await;
/// assert!(limiter.check("alice").await.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    began: Timestamp,
    since: Instant,
}

impl TokioClock {
    /// A clock that shows the system's time now, and moves with tokio's from here on.
    pub fn new() -> Self {
        Self { began: SystemClock::new().now(), since: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.began + Span::from(self.since.elapsed())
    }
}
