//! Waiting for other processes, the one thing a test cannot do without real time.

use std::time::{Duration, Instant};

/// Checks every few milliseconds until `done` returns true.
///
/// # Panics
///
/// If it still returns false after `limit`.
pub fn wait_until(what: &str, limit: Duration, done: impl FnMut() -> bool) {
    assert!(happens(limit, done), "waited {limit:?} for {what}");
}

/// The same, for callers that can report better than we can what went wrong.
pub(crate) fn happens(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = now();
    while !done() {
        if start.elapsed() >= limit {
            return false;
        }
        sleep(STEP);
    }
    true
}

#[allow(clippy::disallowed_methods, reason = "other processes do not follow a manual clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "other processes do not follow a manual clock")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// How long a server may take to be up, or a group of them to agree.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The same for what several processes have to agree on, on a busy machine.
pub(crate) const MORE_PATIENCE: Duration = Duration::from_secs(30);

const STEP: Duration = Duration::from_millis(5);
