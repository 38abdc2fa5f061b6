//! Exponential backoff with jitter, and the jitter on top of a server's own waits.

use std::time::Duration;

/// Exponential backoff with full jitter: before retry number n, a random time up to
/// `base * 2^n`, and never more than `cap`.
///
/// A wait that the server requests is kept in full, and the jitter comes on top: up to a quarter of the
/// wait (of the window, if the wait is for its end), or what backoff would be, whichever is more, as far
/// as [`max_wait`](crate::PoliteLayer::max_wait) allows.
///
/// ```
/// use std::time::Duration;
/// use tidegate::client::{RetryBackoff, PoliteLayer};
///
/// let backoff = RetryBackoff { base: Duration::from_millis(50), ..RetryBackoff::default() };
/// let layer = PoliteLayer::new().backoff(backoff);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBackoff {
    /// The longest first wait. Defaults to 100 milliseconds.
    pub base: Duration,
    /// The longest that jitter makes a wait. Defaults to 30 seconds.
    pub cap: Duration,
}

impl Default for RetryBackoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(100), cap: Duration::from_secs(30) }
    }
}

impl RetryBackoff {
    fn ceiling(&self, attempt: u32) -> Duration {
        self.base.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(self.cap)
    }
}

/// The random part of waits.
#[derive(Debug)]
pub(crate) struct Jitter {
    random: fastrand::Rng,
    backoff: RetryBackoff,
    attempt: u32,
}

impl Jitter {
    pub(crate) fn new(seed: Option<u64>, backoff: RetryBackoff) -> Self {
        let random = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { random, backoff, attempt: 0 }
    }

    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::new(Some(seed), RetryBackoff::default())
    }

    /// Sets how many attempts were already made.
    pub(crate) fn attempt(&mut self, attempt: u32) -> &mut Self {
        self.attempt = attempt;
        self
    }

    /// The wait without a server's `Retry-After`.
    pub(crate) fn backoff_wait(&mut self) -> Duration {
        let ceiling = self.backoff.ceiling(self.attempt);
        self.up_to(ceiling)
    }

    /// The addition to a wait that a server requested: up to `spread`, or what backoff would be if
    /// that is more; but never more than `most`.
    pub(crate) fn extra_wait(&mut self, spread: Duration, most: Duration) -> Duration {
        let spread = self.backoff.ceiling(self.attempt).max(spread);
        self.up_to(spread.min(self.backoff.cap).min(most))
    }

    /// A random number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(0..bound.max(1))
    }

    /// A random time up to `most`.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.random.u64(0..=micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_double_up_to_the_cap() {
        let backoff = RetryBackoff::default();
        let millis: Vec<_> = (0..4).map(|n| backoff.ceiling(n).as_millis()).collect();
        assert_eq!(millis, [100, 200, 400, 800]);
        assert_eq!(backoff.ceiling(40), backoff.cap);
        assert_eq!(backoff.ceiling(u32::MAX), backoff.cap);
    }

    #[test]
    fn jitter_is_full_and_even() {
        let mut jitter = Jitter::seeded(7);
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let wait = jitter.attempt(3).backoff_wait().as_millis() as usize;
            tenths[(wait * 10 / 801).min(9)] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1_150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn the_extra_wait_is_spread_and_bounded() {
        let mut jitter = Jitter::seeded(7);
        let mut most = |spread, most| {
            (0..1_000).map(|_| jitter.extra_wait(spread, most).as_millis()).max().unwrap()
        };
        let ten = Duration::from_secs(10);
        assert!((9_000..=10_000).contains(&most(ten, Duration::MAX)));
        assert!((90..=100).contains(&most(Duration::ZERO, Duration::MAX)));
        assert!((900..=1_000).contains(&most(ten, Duration::from_secs(1))));
        assert_eq!(most(ten, Duration::ZERO), 0);
    }
}
