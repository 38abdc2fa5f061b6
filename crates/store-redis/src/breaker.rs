//! Stops asking a Redis that does not answer, so that nobody waits to find out.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::link::RedisFailure;

/// Failures in a row that open it.
const IN_A_ROW: u32 = 5;
/// Or half of at least this many in one [`WINDOW`].
const AT_LEAST: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// Closed while Redis answers. Once it does not, open until a background probe succeeds: user
/// traffic is never used as the probe.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<BreakerState>,
}

#[derive(Debug)]
struct BreakerState {
    /// Why it is open, if it is: what opened it, or what the probe has met since.
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

    /// Why Redis is not asked; nothing while it is.
    pub(crate) fn cause(&self) -> Option<RedisFailure> {
        self.state.lock().cause.clone()
    }

    /// Redis has answered. If that came after the time by which it was due, nobody has waited for it,
    /// and it says nothing: a Redis that always answers late is as good as none.
    pub(crate) fn record_success(&self, due: Instant) {
        let mut state = self.state.lock();
        if state.roll_window() <= due {
            state.in_a_row = 0;
            state.successes += 1;
        }
    }

    /// Returns whether this failure opened it; if so, somebody has to probe.
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

    /// What a probe has met: callers are told that from now on.
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
