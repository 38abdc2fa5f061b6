//! When something last moved, where several may move it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

/// The time of the last movement. Until there is one, that of its own beginning.
#[derive(Debug)]
pub(crate) struct TransferActivity {
    began: Instant,
    /// Nanoseconds since then.
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

    /// Something moves, now.
    pub(crate) fn record(&self) {
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.fetch_max(nanos, Ordering::Relaxed);
    }

    /// What moves is answered already.
    pub(crate) fn set_answered(&self) {
        self.is_answered.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }

    /// It moves, but too slowly.
    pub(crate) fn set_too_slow(&self) {
        self.is_too_slow.store(true, Ordering::Relaxed);
    }

    pub(crate) fn was_too_slow(&self) -> bool {
        self.is_too_slow.load(Ordering::Relaxed)
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }

    /// Waits for as long as things move. `None` when nothing has moved for `span`.
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
        let (second, movement) = (Duration::from_secs(1), TransferActivity::new());
        let start = Instant::now();
        let moving = async {
            sleep(second / 2).await;
            movement.record();
        };
        let (waited, ()) = tokio::join!(movement.within(second, pending::<()>()), moving);
        assert_eq!((waited, start.elapsed()), (None, second * 3 / 2));
        // What is there at once is not late.
        assert_eq!(movement.within(second, async { 1 }).await, Some(1));
    }
}
