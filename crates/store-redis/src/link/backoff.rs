//! How long to wait before another attempt to connect.

use std::time::Duration;

use tidegate_store::StoreErrorKind;

/// The pause before the next attempt. It grows with each failure, and is randomised so that clients
/// that failed together do not come back together.
#[derive(Debug, Default)]
pub(super) struct ConnectionBackoff {
    failures: u32,
}

impl ConnectionBackoff {
    pub(super) fn record_failure(&mut self, kind: StoreErrorKind) {
        self.failures = match kind {
            // Only a change of configuration helps, so there is no hurry.
            StoreErrorKind::Misconfigured => STEPS,
            _ => self.failures.saturating_add(1).min(STEPS),
        };
    }

    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next pause; zero if nothing has failed.
    pub(super) fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => jitter(Duration::ZERO, (FIRST * 2_u32.pow(failures - 1)).min(LONGEST)),
        }
    }
}

/// A random duration from `least` to `most`.
pub(super) fn jitter(least: Duration, most: Duration) -> Duration {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(fastrand::u64(nanos(least)..=nanos(most.max(least))))
}

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);
/// After this many failures the pause stops growing.
const STEPS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_and_vary() {
        let mut backoff = ConnectionBackoff::default();
        assert_eq!(backoff.pause(), Duration::ZERO);
        for most in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000] {
            backoff.record_failure(StoreErrorKind::Unreachable);
            let pauses: Vec<_> = (0..1_000).map(|_| backoff.pause()).collect();
            let most = Duration::from_millis(most);
            assert!(pauses.iter().all(|pause| *pause <= most));
            assert!(pauses.iter().any(|pause| *pause > most / 2));
            assert!(pauses.iter().any(|pause| *pause < most / 2));
        }
        backoff.reset();
        assert_eq!(backoff.pause(), Duration::ZERO);
    }

    #[test]
    fn a_wrong_password_is_not_tried_again_and_again() {
        let mut backoff = ConnectionBackoff::default();
        backoff.record_failure(StoreErrorKind::Misconfigured);
        let total: Duration = (0..1_000).map(|_| backoff.pause()).sum();
        assert!(total > Duration::from_secs(400));
    }
}
