//! How long callers wait for Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest that a decision may take. It may change while decisions are being made.
#[derive(Debug)]
pub(crate) struct RedisDeadline(AtomicU64);

impl RedisDeadline {
    pub(crate) fn new(longest: Duration) -> Arc<Self> {
        let deadline = Self(AtomicU64::new(0));
        deadline.set(longest);
        Arc::new(deadline)
    }

    pub(crate) fn set(&self, longest: Duration) {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// How long a call has to be under way to count as late: about halfway between the usual round trip
/// and the caller's patience, so that a far Redis is not taken for a slow one. For a caller that does
/// not even wait for the usual round trip, the deadline of the other callers counts, if that is longer.
pub(crate) fn late_after(patience: Duration, deadline: Duration, usual: Duration) -> Duration {
    let given = if usual < patience { patience } else { deadline };
    let late = if usual < given { (given + usual) / 2 } else { patience / 2 };
    late.max(LATE)
}

/// A call that has been under way for less than this is not late, however little time a caller has.
const LATE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_redis_is_not_late_and_a_slow_one_is() {
        for (patience, deadline, usual, late) in [
            (20, 20, 0, 10),
            (20, 20, 16, 18),
            // Slower than anyone waits.
            (20, 20, 20, 10),
            (20, 20, 60, 10),
            // A caller in a hurry, and one in a hurry where nobody else would get an answer either.
            (4, 20, 10, 15),
            (14, 20, 20, 7),
            (2, 2, 0, 5),
        ] {
            let [patience, deadline, usual, late] =
                [patience, deadline, usual, late].map(Duration::from_millis);
            assert_eq!(late_after(patience, deadline, usual), late, "usually {usual:?}");
        }
    }
}
