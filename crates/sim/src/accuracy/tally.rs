//! The sums of an accuracy study, which threads can merge in any order.

use tidegate::AlgorithmKind;

/// The results for some sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccuracyTally {
    /// How many sources there were.
    pub sources: u64,
    /// Requests of all of them.
    pub requests: u64,
    /// By algorithm, in the order of [`AlgorithmKind::ALL`].
    pub algorithms: [AlgorithmTally; AlgorithmKind::ALL.len()],
    /// The estimate of the sliding-window counter beside the real rate.
    pub estimate: EstimateTally,
}

/// What one algorithm decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlgorithmTally {
    /// Requests that passed.
    pub admitted: u64,
    /// Of those, requests that passed although the window was full.
    pub too_many: u64,
    /// Requests that were denied although the window was not full.
    pub too_strict: u64,
    /// The fullest window.
    pub worst: u64,
    /// The time spent deciding.
    pub nanos: u64,
    /// The memory of all states at the end, including their fingerprints.
    pub bytes: u64,
}

impl AlgorithmTally {
    /// Decisions that were wrong.
    pub const fn wrong(&self) -> u64 {
        self.too_many + self.too_strict
    }
}

/// How an estimate compares with the truth, when every request counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EstimateTally {
    /// Requests above the limit that the estimate would allow.
    pub wrongly_allowed: u64,
    /// Requests within the limit that the estimate would deny.
    pub wrongly_denied: u64,
    /// The sum of all differences between the estimated and the real rate, in millionths of the
    /// real one.
    pub difference: u128,
    /// Sources that were above the limit but were never found to be.
    pub missed: u64,
    /// The highest rate of these sources, in millionths of the limit.
    pub missed_at: u64,
    /// Sources that were found to be above the limit but never were.
    pub false_alarms: u64,
}

impl EstimateTally {
    /// Requests on which the estimate is wrong.
    pub const fn wrong(&self) -> u64 {
        self.wrongly_allowed + self.wrongly_denied
    }
}

impl AccuracyTally {
    /// The mean difference between estimated and real rate.
    pub fn mean_difference(&self) -> f64 {
        self.estimate.difference as f64 / 1e6 / self.requests.max(1) as f64
    }

    pub(super) fn merged(&self, other: &Self) -> Self {
        let algorithms = std::array::from_fn(|index| {
            let (one, two) = (self.algorithms[index], other.algorithms[index]);
            AlgorithmTally {
                admitted: one.admitted + two.admitted,
                too_many: one.too_many + two.too_many,
                too_strict: one.too_strict + two.too_strict,
                worst: one.worst.max(two.worst),
                nanos: one.nanos + two.nanos,
                bytes: one.bytes + two.bytes,
            }
        });
        let (one, two) = (&self.estimate, &other.estimate);
        Self {
            sources: self.sources + other.sources,
            requests: self.requests + other.requests,
            algorithms,
            estimate: EstimateTally {
                wrongly_allowed: one.wrongly_allowed + two.wrongly_allowed,
                wrongly_denied: one.wrongly_denied + two.wrongly_denied,
                difference: one.difference + two.difference,
                missed: one.missed + two.missed,
                missed_at: one.missed_at.max(two.missed_at),
                false_alarms: one.false_alarms + two.false_alarms,
            },
        }
    }
}
