//! A token bucket, as the debt that is still to be refilled. A token is worth a window of units, and a
//! microsecond pays back as many units as the limit has tokens.

use super::{RoomBounds, UsageModel, WaitBounds};
use crate::cost_curve::CostPoint;
use crate::evidence::KeyEvidence;
use crate::rule::JudgedRule;

/// The least and the most debt before each call.
pub(super) struct BucketUsage<'a> {
    rule: &'a JudgedRule,
    evidence: &'a KeyEvidence<'a>,
    brim: i128,
    debts: Vec<DebtBounds>,
}

/// The least debt is as of the latest time of the call, the most as of its earliest.
#[derive(Clone, Copy, Debug, Default)]
struct DebtBounds {
    least: i128,
    most: i128,
}

impl<'a> BucketUsage<'a> {
    pub(super) fn new(
        rule: &'a JudgedRule,
        burst: u64,
        evidence: &'a KeyEvidence<'a>,
        is_capped: bool,
    ) -> Self {
        let brim = i128::from(burst) * i128::from(rule.window);
        let (least, most) =
            (least_debts(rule, evidence), most_debts(rule, evidence, brim, is_capped));
        let debts = least.into_iter().zip(most);
        let debts = debts.map(|(least, most)| DebtBounds { least, most }).collect();
        Self { rule, evidence, brim, debts }
    }

    fn debt(&self, call: usize) -> DebtBounds {
        self.debts.get(call).copied().unwrap_or_default()
    }

    fn tokens(&self, debt: i128) -> u64 {
        let left = (self.brim - debt).max(0) / i128::from(self.rule.window);
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn paid_in(&self, debt: i128, cost: u64) -> i64 {
        let excess = debt + i128::from(cost) * i128::from(self.rule.window) - self.brim;
        let limit = i128::from(self.rule.limit);
        i64::try_from((excess.max(0) + limit - 1) / limit).unwrap_or(i64::MAX)
    }
}

impl UsageModel for BucketUsage<'_> {
    fn room(&self, call: usize) -> RoomBounds {
        let debt = self.debt(call);
        RoomBounds { least: self.tokens(debt.most), most: self.tokens(debt.least) }
    }

    fn wait(&self, call: usize) -> WaitBounds {
        let (debt, cost) =
            (self.debt(call), self.evidence.calls.get(call).map_or(0, |call| call.cost));
        WaitBounds {
            least: self.paid_in(debt.least, cost),
            most: Some(self.paid_in(debt.most, cost)),
        }
    }
}

fn worth(rule: &JudgedRule, cost: u64) -> i128 {
    i128::from(cost) * i128::from(rule.window)
}

fn paid(rule: &JudgedRule, from: i64, to: i64) -> i128 {
    i128::from(rule.limit) * i128::from(to.saturating_sub(from).max(0))
}

/// Everything that was certainly over before the call, each charge as late as it can have been, and
/// everything that can have happened at the same time, all of it unpaid.
fn most_debts(
    rule: &JudgedRule,
    evidence: &KeyEvidence<'_>,
    brim: i128,
    is_capped: bool,
) -> Vec<i128> {
    let KeyEvidence { calls, possible, work, .. } = evidence;
    let mut charges = evidence.possible_points();
    charges.sort_unstable_by_key(|point| point.end);
    work.add((charges.len() + calls.len()) as u64);
    let (mut debt, mut at, mut next) = (0_i128, i64::MIN / 2, 0);
    let debts = (0..calls.len()).map(|call| {
        let (earliest, latest) = (evidence.earliest(call), evidence.latest(call));
        while let Some(point) = charges.get(next).filter(|point| point.end < earliest) {
            debt = (debt - paid(rule, at, point.end)).max(0) + worth(rule, point.cost);
            debt = if is_capped { debt.min(brim) } else { debt };
            (at, next) = (point.end, next + 1);
        }
        let begun = possible.begun.up_to(work, latest) - evidence.own(call);
        let concurrent = begun.saturating_sub(possible.ended.before(work, earliest));
        let concurrent = i128::try_from(concurrent).unwrap_or(i128::MAX >> 64);
        let sum = (debt - paid(rule, at, earliest)).max(0)
            + concurrent.saturating_mul(i128::from(rule.window));
        if is_capped { sum.min(brim) } else { sum }
    });
    debts.collect()
}

/// Everything that was certainly over before the call, each charge as early as it can have been.
fn least_debts(rule: &JudgedRule, evidence: &KeyEvidence<'_>) -> Vec<i128> {
    let mut charges: Vec<CostPoint> = evidence.admitted().map(|(_, point)| point).collect();
    charges.sort_unstable_by_key(|point| point.end);
    evidence.work.add((charges.len() + evidence.calls.len()) as u64);
    let (mut bucket, mut next) = (EarlyDebt::default(), 0);
    let debts = (0..evidence.calls.len()).map(|call| {
        let (earliest, latest) = (evidence.earliest(call), evidence.latest(call));
        while let Some(point) = charges.get(next).filter(|point| point.end < earliest) {
            bucket.charge(rule, point);
            next += 1;
        }
        (bucket.debt - paid(rule, bucket.at, latest)).max(0)
    });
    debts.collect()
}

/// A lower bound of the debt, for charges that are not quite in order.
#[derive(Clone, Copy, Debug)]
struct EarlyDebt {
    debt: i128,
    /// The time of the debt.
    at: i64,
    /// Since when there has been a debt without a break.
    since: i64,
}

impl Default for EarlyDebt {
    fn default() -> Self {
        Self { debt: 0, at: i64::MIN / 2, since: i64::MIN / 2 }
    }
}

impl EarlyDebt {
    fn charge(&mut self, rule: &JudgedRule, point: &CostPoint) {
        let worth = worth(rule, point.cost);
        if point.at < self.at {
            // A charge in the past still counts in full if there has been a debt ever since.
            let added = (worth - paid(rule, point.at, self.since)).max(0);
            if added > 0 && point.at < self.since {
                self.since = point.at;
            }
            self.debt += added;
            return;
        }
        self.debt = (self.debt - paid(rule, self.at, point.at)).max(0);
        if self.debt == 0 {
            self.since = point.at;
        }
        (self.debt, self.at) = (self.debt + worth, point.at);
    }
}
