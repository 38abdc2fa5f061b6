//! Measures how long decisions take: the only real clock here, since limits run in virtual time.

use std::time::{Duration, Instant};

/// A stopwatch for the cost of decisions.
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
