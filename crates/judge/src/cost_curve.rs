//! How much cost there is up to any time.

use std::cell::Cell;

/// Costs, summed up over time.
#[derive(Debug, Default)]
pub(crate) struct CostCurve {
    times: Vec<i64>,
    /// The sum of the first n.
    sums: Vec<u128>,
    /// The latest end of the first n.
    ends: Vec<i64>,
}

/// A cost at a time, of a call that ends later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostPoint {
    pub(crate) at: i64,
    pub(crate) cost: u64,
    pub(crate) end: i64,
}

impl CostCurve {
    pub(crate) fn new(mut points: Vec<CostPoint>) -> Self {
        points.sort_unstable_by_key(|point| point.at);
        let mut curve = Self { times: Vec::with_capacity(points.len()), ..Self::default() };
        let (mut sum, mut end) = (0, i64::MIN);
        (curve.sums, curve.ends) = (vec![sum], vec![end]);
        for point in points {
            sum += u128::from(point.cost);
            end = end.max(point.end);
            curve.times.push(point.at);
            curve.sums.push(sum);
            curve.ends.push(end);
        }
        curve
    }

    /// All cost before the first time for which `holds` is false. It must be true up to some time, and
    /// false from then on.
    pub(crate) fn while_(&self, work: &WorkMeter, holds: impl Fn(i64) -> bool) -> u128 {
        self.sum(self.place(work, holds))
    }

    pub(crate) fn before(&self, work: &WorkMeter, time: i64) -> u128 {
        self.while_(work, |at| at < time)
    }

    pub(crate) fn up_to(&self, work: &WorkMeter, time: i64) -> u128 {
        self.while_(work, |at| at <= time)
    }

    /// When the sum reaches `target`, if it does.
    pub(crate) fn reaching(&self, work: &WorkMeter, target: u128) -> Option<i64> {
        work.add(self.times.len().checked_ilog2().unwrap_or(0).into());
        let count = self.sums.partition_point(|sum| *sum < target);
        self.times.get(count.checked_sub(1)?).copied()
    }

    /// The latest end of all that begins at `time` or before.
    pub(crate) fn end_of(&self, work: &WorkMeter, time: i64) -> Option<i64> {
        let count = self.place(work, |at| at <= time);
        self.ends.get(count).copied().filter(|_| count > 0)
    }

    fn place(&self, work: &WorkMeter, holds: impl Fn(i64) -> bool) -> usize {
        work.add(self.times.len().checked_ilog2().unwrap_or(0).into());
        self.times.partition_point(|at| holds(*at))
    }

    fn sum(&self, count: usize) -> u128 {
        self.sums.get(count).copied().unwrap_or(0)
    }
}

/// Counts the steps of judging, so that a test can see how they grow with a history.
#[derive(Debug, Default)]
pub(crate) struct WorkMeter(Cell<u64>);

impl WorkMeter {
    pub(crate) fn add(&self, steps: u64) {
        self.0.set(self.0.get().saturating_add(steps));
    }

    pub(crate) const fn steps(&self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_found_by_time_and_times_by_sum() {
        let point = |at, cost, end| CostPoint { at, cost, end };
        let curve = CostCurve::new(vec![point(5, 2, 9), point(1, 3, 20), point(5, 1, 6)]);
        let work = WorkMeter::default();
        assert_eq!([0, 1, 4, 5].map(|time| curve.up_to(&work, time)), [0, 3, 3, 6]);
        assert_eq!([1, 5, 6].map(|time| curve.before(&work, time)), [0, 3, 6]);
        let reached = [0, 1, 3, 4, 6, 7].map(|sum| curve.reaching(&work, sum));
        assert_eq!(reached, [None, Some(1), Some(1), Some(5), Some(5), None]);
        assert_eq!([0, 1, 7].map(|time| curve.end_of(&work, time)), [None, Some(20), Some(20)]);
        assert!(work.steps() > 0);
    }
}
