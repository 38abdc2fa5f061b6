//! Stops requests to a Redis that does not answer, so that callers fail immediately.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::link::RedisFailure;

/// Failures in a row that open a breaker.
const IN_A_ROW: u32 = 5;
/// A breaker also opens if half of at least this many calls in one [`WINDOW`] fail.
const AT_LEAST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// A circuit breaker: closed while Redis answers, then open until a background probe succeeds. User
/// traffic is never used as the probe.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<BreakerState>,
}

/// Why a breaker is open, and the calls that it has counted.
#[derive(Debug)]
struct BreakerState {
    /// The failure that opened it, or the probe's latest failure; `None` while it is closed.
    cause: Option<RedisFailure>,
    in_a_row: u32,
    since: Instant,
    failures: u32,
    successes: u32,
}

impl Breaker {
    #[allow(clippy::disallowed_methods, reason = "measures the store, and decides nothing")]
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(BreakerState {
                cause: None,
                in_a_row: 0,
                since: Instant::now(),
                failures: 0,
                successes: 0,
            }),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().cause.is_some()
    }

    /// Why the breaker is open; `None` while it is closed.
    pub(crate) fn cause(&self) -> Option<RedisFailure> {
        self.state.lock().cause.clone()
    }

    /// Records an answer, unless it came after `due`: no caller has waited for it, and a Redis that
    /// always answers late is as good as none.
    pub(crate) fn record_success(&self, due: Instant) {
        let mut state = self.state.lock();
        if state.roll_window() <= due {
            state.in_a_row = 0;
            state.successes += 1;
        }
    }

    /// Records a failure. Returns whether it opened the breaker: then the caller starts a probe.
    pub(crate) fn record_failure(&self, failure: &RedisFailure) -> bool {
        let mut state = self.state.lock();
        state.roll_window();
        state.failures += 1;
        state.in_a_row += 1;
        let half =
            state.failures + state.successes >= AT_LEAST && state.failures >= state.successes;
        let opens = state.cause.is_none() && (state.in_a_row >= IN_A_ROW || half);
        if opens {
            state.cause = Some(failure.clone());
        }
        opens
    }

    /// Records the probe's latest failure, which callers get as the cause from now on.
    pub(crate) fn update_cause(&self, failure: RedisFailure) {
        if let Some(cause) = &mut self.state.lock().cause {
            *cause = failure;
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.cause = None;
        (state.in_a_row, state.failures, state.successes) = (0, 0, 0);
    }
}

impl BreakerState {
    /// Starts counting anew when the window is over. Returns the time.
    #[allow(clippy::disallowed_methods, reason = "measures the store, and decides nothing")]
    fn roll_window(&mut self) -> Instant {
        let now = Instant::now();
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.failures, self.successes) = (now, 0, 0);
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use tidegate_store::StoreErrorKind;

    use super::*;

    fn failure(kind: StoreErrorKind) -> RedisFailure {
        RedisFailure::not_run(kind, kind.name())
    }

    fn fails(breaker: &Breaker) -> bool {
        breaker.record_failure(&failure(StoreErrorKind::Full))
    }

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_open_it_and_say_so_once() {
        let breaker = Breaker::new();
        assert!((0..4).all(|_| !fails(&breaker)));
        breaker.record_success(Instant::now());
        assert!((0..4).all(|_| !fails(&breaker)));
        assert!(fails(&breaker) && breaker.is_open());
        assert!(!fails(&breaker));
        breaker.close();
        assert!(!breaker.is_open() && !fails(&breaker));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_waited_for_do_not_keep_it_closed() {
        let (breaker, due) = (Breaker::new(), Instant::now());
        tokio::time::advance(Duration::from_millis(1)).await;
        for _ in 0..4 {
            assert!(!fails(&breaker));
            breaker.record_success(due);
        }
        assert!(fails(&breaker));
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_twenty_in_a_second_open_it() {
        let breaker = Breaker::new();
        for _ in 0..9 {
            breaker.record_success(Instant::now());
            assert!(!fails(&breaker));
        }
        tokio::time::advance(WINDOW).await;
        for _ in 0..9 {
            breaker.record_success(Instant::now());
            assert!(!fails(&breaker));
        }
        breaker.record_success(Instant::now());
        assert!(fails(&breaker));
    }

    #[tokio::test(start_paused = true)]
    async fn it_knows_why_it_is_open_and_what_the_probe_met() {
        let breaker = Breaker::new();
        let kind = || breaker.cause().map(|cause| cause.kind);
        breaker.update_cause(failure(StoreErrorKind::Timeout));
        assert_eq!(kind(), None, "it is closed");
        while !fails(&breaker) {}
        assert_eq!(kind(), Some(StoreErrorKind::Full));
        assert!(!breaker.record_failure(&failure(StoreErrorKind::Lost)));
        assert_eq!(kind(), Some(StoreErrorKind::Full), "the cause is what opened it");
        breaker.update_cause(failure(StoreErrorKind::ReadOnly));
        assert_eq!(kind(), Some(StoreErrorKind::ReadOnly));
        breaker.close();
        assert_eq!(kind(), None);
    }
}
