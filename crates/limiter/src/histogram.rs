//! A latency histogram with fixed buckets.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts durations in fixed buckets: two atomic additions per duration, and constant memory.
///
/// ```
/// use tidegate::Histogram;
///
/// let histogram = Histogram::new();
/// histogram.record(800);
/// histogram.record(3_000_000);
/// let counted = histogram.snapshot();
/// assert_eq!((counted.count(), counted.sum_nanos), (2, 3_000_800));
/// assert_eq!(counted.quantile_nanos(50), Some(1_000));
/// ```
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// The counts of a [`Histogram`] at one moment.
///
/// Two snapshots of one histogram can be subtracted: [`since`](Self::since) has what was counted between
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistogramSnapshot {
    /// The number of durations in each bucket: up to its bound in [`Histogram::BOUNDS`] and above the
    /// bound before. The last bucket holds the durations above all bounds.
    pub counts: [u64; BUCKETS],
    /// The sum of all durations.
    pub sum_nanos: u64,
}

impl Histogram {
    /// Inclusive upper bounds in nanoseconds: from a counter in memory to a store that hangs.
    pub const BOUNDS: [u64; BUCKETS - 1] = [
        250,
        500,
        1_000,
        2_500,
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        1_000_000_000,
    ];

    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one duration.
    pub fn record(&self, nanos: u64) {
        self.record_many(nanos, 1);
    }

    /// Counts the same duration several times.
    pub fn record_many(&self, nanos: u64, times: u64) {
        let bucket = Self::BOUNDS.partition_point(|bound| *bound < nanos);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(times, Ordering::Relaxed);
            self.sum.fetch_add(nanos.saturating_mul(times), Ordering::Relaxed);
        }
    }

    /// The current counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
            sum_nanos: self.sum.load(Ordering::Relaxed),
        }
    }
}

impl HistogramSnapshot {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper bound of the bucket that holds this percentile; twice the last bound if it lies above
    /// all bounds. `None` if nothing was counted.
    ///
    /// ```
    /// use tidegate::Histogram;
    ///
    /// let histogram = Histogram::new();
    /// assert_eq!(histogram.snapshot().quantile_nanos(99), None);
    /// histogram.record_many(400, 98);
    /// histogram.record_many(9_000_000, 2);
    /// assert_eq!(histogram.snapshot().quantile_nanos(50), Some(500));
    /// assert_eq!(histogram.snapshot().quantile_nanos(99), Some(10_000_000));
    /// ```
    pub fn quantile_nanos(&self, percent: u64) -> Option<u64> {
        let count = self.count();
        let wanted = count.saturating_mul(percent.min(100)).div_ceil(100).max(1);
        let mut below = 0_u64;
        let beyond = 2 * Histogram::BOUNDS[BUCKETS - 2];
        let bounds = Histogram::BOUNDS.into_iter().chain([beyond]);
        for (bound, in_bucket) in bounds.zip(&self.counts) {
            below = below.saturating_add(*in_bucket);
            if count > 0 && below >= wanted {
                return Some(bound);
            }
        }
        None
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|bucket| {
                self.counts[bucket].saturating_sub(earlier.counts[bucket])
            }),
            sum_nanos: self.sum_nanos.saturating_sub(earlier.sum_nanos),
        }
    }
}

const BUCKETS: usize = 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new();
        for nanos in [0, 250, 251, 1_000_000_000, 1_000_000_001, u64::MAX / 2] {
            histogram.record(nanos);
        }
        let counted = histogram.snapshot();
        assert_eq!((counted.counts[0], counted.counts[1]), (2, 1));
        assert_eq!((counted.counts[BUCKETS - 2], counted.counts[BUCKETS - 1]), (1, 2));
        assert_eq!(counted.count(), 6);
    }

    #[test]
    fn quantiles_are_bounds_and_none_of_nothing() {
        let histogram = Histogram::new();
        assert_eq!(histogram.snapshot().quantile_nanos(99), None);
        for _ in 0..99 {
            histogram.record(90_000);
        }
        let before = histogram.snapshot();
        histogram.record_many(30_000_000, 1);
        let counted = histogram.snapshot();
        assert_eq!(counted.quantile_nanos(50), Some(100_000));
        assert_eq!(counted.quantile_nanos(99), Some(100_000));
        assert_eq!(counted.quantile_nanos(100), Some(50_000_000));
        assert_eq!(counted.since(&before).quantile_nanos(0), Some(50_000_000));
    }
}
