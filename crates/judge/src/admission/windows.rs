//! Placement into windows that are aligned to the epoch.

use super::CallPlacement;
use crate::cost_curve::CostPoint;
use crate::evidence::KeyEvidence;
use crate::rule::JudgedRule;

/// The first window that is not full, and what is in it.
pub(super) struct WindowPlacement {
    window: i64,
    limit: i128,
    current: i64,
    used: i128,
}

impl WindowPlacement {
    pub(super) fn new(rule: &JudgedRule) -> Self {
        Self { window: rule.window, limit: rule.limit.into(), current: i64::MIN / 2, used: 0 }
    }
}

impl CallPlacement for WindowPlacement {
    fn place(&mut self, point: CostPoint) -> bool {
        let (first, last) = (point.at.div_euclid(self.window), point.end.div_euclid(self.window));
        let (current, used) =
            if first > self.current { (first, 0) } else { (self.current, self.used) };
        let sum = used + i128::from(point.cost);
        // Windows that are full, unless the last is full exactly.
        let full = (sum - 1).max(0) / self.limit;
        let end = i128::from(current) + full;
        let fits = point.cost == 0 || end <= i128::from(last);
        if fits && point.cost > 0 {
            self.current = i64::try_from(end).unwrap_or(i64::MAX / 2);
            self.used = sum - full * self.limit;
        } else {
            (self.current, self.used) = (current, used);
        }
        fits
    }
}

/// Calls after which a sliding window certainly held too much: whichever call of a window was decided
/// last, it was before the latest answer, and all others counted by then.
pub(super) fn overfull(rule: &JudgedRule, evidence: &KeyEvidence<'_>) -> Vec<usize> {
    let KeyEvidence { certain, work, .. } = evidence;
    let window = u128::from(rule.window.unsigned_abs());
    let is_overfull = |index: &usize| {
        let (earliest, latest) = (evidence.earliest(*index), evidence.latest(*index));
        let start = rule.window_start(latest);
        if earliest < start {
            return false;
        }
        let begun = certain.begun.before(work, start);
        let current = certain.ended.up_to(work, latest).saturating_sub(begun);
        let before = certain.begun.before(work, start - rule.window);
        let previous = certain.ended.before(work, start).saturating_sub(before);
        let view = u128::from((start + rule.window - latest).unsigned_abs());
        previous * view + current * window > u128::from(rule.limit) * window
    };
    evidence.admitted().map(|(index, _)| index).filter(is_overfull).collect()
}
