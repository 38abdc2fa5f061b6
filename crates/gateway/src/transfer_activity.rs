//! The time of the last transfer on a connection, shared by the tasks that transfer bytes.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The time of the last transfer, initially the time of creation.
#[derive(Debug)]
pub(crate) struct TransferActivity {
    began: Instant,
    /// Nanoseconds since `began`.
    last: AtomicU64,
    is_answered: AtomicBool,
    is_too_slow: AtomicBool,
}

impl TransferActivity {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            is_answered: AtomicBool::new(false),
            is_too_slow: AtomicBool::new(false),
        }
    }

    /// Records a transfer at this moment.
    pub(crate) fn record(&self) {
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Records that the request is already answered.
    pub(crate) fn set_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    /// Records that the body arrives too slowly.
    pub(crate) fn set_too_slow(&self) {
        self.is_too_slow.store(true, Ordering::Relaxed);
    }

    pub(crate) fn was_too_slow(&self) -> bool {
        self.is_too_slow.load(Ordering::Relaxed)
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }

    /// Waits for the future as long as bytes are transferred. `None` after `span` without a transfer.
    pub(crate) async fn within<T>(
        &self,
        span: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let mut future = pin!(future);
        loop {
            let until = self.last() + span;
            match timeout_at(until, &mut future).await {
                Ok(done) => return Some(done),
                Err(_) if self.last() + span > until => {}
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_from_the_last_movement() {
        let (second, activity) = (Duration::from_secs(1), TransferActivity::new());
        let start = Instant::now();
        let moving = async {
            sleep(second / 2).await;
            activity.record();
        };
        let (waited, ()) = tokio::join!(activity.within(second, pending::<()>()), moving);
        assert_eq!((waited, start.elapsed()), (None, second * 3 / 2));
        // A future that is ready immediately is never late.
        assert_eq!(activity.within(second, async { 1 }).await, Some(1));
    }
}
