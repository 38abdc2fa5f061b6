//! Placement under a token bucket.

use super::CallPlacement;
use crate::cost_curve::CostPoint;
use crate::rule::JudgedRule;

/// The debt of a bucket from which everything was taken as early as possible.
pub(super) struct BucketPlacement {
    limit: i128,
    window: i128,
    brim: i128,
    debt: i128,
    at: i64,
}

impl BucketPlacement {
    pub(super) fn new(rule: &JudgedRule, burst: u64) -> Self {
        let window = i128::from(rule.window);
        let brim = i128::from(burst) * window;
        Self { limit: rule.limit.into(), window, brim, debt: 0, at: i64::MIN / 2 }
    }
}

impl CallPlacement for BucketPlacement {
    fn place(&mut self, point: CostPoint) -> bool {
        let paid = |from: i64, to: i64| self.limit * i128::from(to.saturating_sub(from).max(0));
        let debt = (self.debt - paid(self.at, point.at)).max(0);
        let after = debt + i128::from(point.cost) * self.window;
        let fits = after - paid(point.at, point.end) <= self.brim;
        (self.debt, self.at) = (if fits { after } else { debt }, point.at);
        fits
    }
}
