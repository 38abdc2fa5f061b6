//! The caller's clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since the epoch, which never go back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    start: Instant,
    since_epoch: i64,
}

impl WallClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "calls of a real limiter happen in real time, which no test can move"
    )]
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_epoch = i64::try_from(since_epoch.as_micros()).unwrap_or(0);
        Self { start: Instant::now(), since_epoch }
    }

    pub(crate) fn now(&self) -> i64 {
        let elapsed = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.since_epoch.saturating_add(elapsed)
    }
}
