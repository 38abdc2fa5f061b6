//! Measures how long something takes in real time.

use std::time::Instant;

pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn nanos(&self) -> f64 {
        self.0.elapsed().as_secs_f64() * 1e9
    }
}
