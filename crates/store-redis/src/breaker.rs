//! Stops asking a Redis that does not answer, so that nobody waits to find out.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Failures in a row that open it.
const IN_A_ROW: u32 = 5;
/// Or half of at least this many in one [`WINDOW`].
const AT_LEAST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// Closed while Redis answers. Once it does not, open until a background probe succeeds: user
/// traffic is never used as the probe.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    open: bool,
    in_a_row: u32,
    since: Instant,
    failures: u32,
    successes: u32,
}

impl Breaker {
    #[allow(clippy::disallowed_methods, reason = "measures the store, and decides nothing")]
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                open: false,
                in_a_row: 0,
                since: Instant::now(),
                failures: 0,
                successes: 0,
            }),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().open
    }

    pub(crate) fn succeeded(&self) {
        let mut state = self.state.lock();
        state.in_a_row = 0;
        state.turn();
        state.successes += 1;
    }

    /// Returns whether this failure opened it; if so, somebody has to probe.
    pub(crate) fn failed(&self) -> bool {
        let mut state = self.state.lock();
        state.turn();
        state.failures += 1;
        state.in_a_row += 1;
        let half =
            state.failures + state.successes >= AT_LEAST && state.failures >= state.successes;
        let opens = !state.open && (state.in_a_row >= IN_A_ROW || half);
        state.open |= opens;
        opens
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.open = false;
        (state.in_a_row, state.failures, state.successes) = (0, 0, 0);
    }
}

impl State {
    /// Starts counting anew when the window is over.
    #[allow(clippy::disallowed_methods, reason = "measures the store, and decides nothing")]
    fn turn(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.failures, self.successes) = (now, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_open_it_and_say_so_once() {
        let breaker = Breaker::new();
        assert!((0..4).all(|_| !breaker.failed()));
        breaker.succeeded();
        assert!((0..4).all(|_| !breaker.failed()));
        assert!(breaker.failed() && breaker.is_open());
        assert!(!breaker.failed());
        breaker.close();
        assert!(!breaker.is_open() && !breaker.failed());
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_twenty_in_a_second_open_it() {
        let breaker = Breaker::new();
        for _ in 0..9 {
            breaker.succeeded();
            assert!(!breaker.failed());
        }
        tokio::time::advance(WINDOW).await;
        for _ in 0..9 {
            breaker.succeeded();
            assert!(!breaker.failed());
        }
        breaker.succeeded();
        assert!(breaker.failed());
    }
}
