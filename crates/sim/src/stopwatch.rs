//! How long something took: the one clock here that measures us, and not a limit.

use std::time::{Duration, Instant};

pub(crate) struct DecisionStopwatch(Instant);

impl DecisionStopwatch {
    #[allow(clippy::disallowed_methods, reason = "it measures how long decisions take")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
