//! Whether what was admitted can have been admitted at all.
//!
//! All admitted calls are placed in time, each within its span, as early as the rule allows. A call
//! that would have to be placed after its answer was there is one too many. Three relaxations make the
//! earliest placement the best one; each of them can only excuse the limiter:
//!
//! - A cost of n is n units, which may be placed apart from each other.
//! - A call ends no earlier than any call that was sent before it. Calls are then placed in the order
//!   in which they were sent. Since one slow call would excuse all that follow, the placement is tried
//!   again without the slowest calls.
//! - Charges that are not in the history do not exist.

mod bucket;
mod units;
mod windows;

use self::bucket::BucketPlacement;
use self::units::UnitPlacement;
use self::windows::WindowPlacement;
use crate::cost_curve::CostPoint;
use crate::evidence::KeyEvidence;
use crate::rule::{JudgedRule, RulePromise};

/// The indexes of calls for which there was no room, whatever happened when.
pub(crate) fn impossible_admissions(rule: &JudgedRule, evidence: &KeyEvidence<'_>) -> Vec<usize> {
    let mut admitted: Vec<_> = evidence.admitted().collect();
    admitted.sort_by_key(|(_, point)| point.at);
    let mut widths: Vec<i64> = admitted.iter().map(|(_, point)| point.end - point.at).collect();
    widths.sort_unstable();
    let mut found = Vec::new();
    let mut before = None;
    for share in [100, 90, 50] {
        let widest = widths.get((widths.len() * share / 100).saturating_sub(1)).copied();
        if widest == before {
            continue;
        }
        before = widest;
        let fast = admitted.iter().filter(|(_, point)| Some(point.end - point.at) <= widest);
        evidence.work.add(admitted.len() as u64);
        found.extend(place(rule, fast.copied(), evidence));
    }
    if rule.promise == RulePromise::SlidingWindow {
        found.extend(windows::overfull(rule, evidence));
    }
    found.extend(
        admitted.iter().filter(|(_, it)| it.cost > rule.capacity()).map(|(index, _)| *index),
    );
    found.sort_unstable();
    found.dedup();
    found
}

/// Where calls are placed, one after the other.
trait CallPlacement {
    /// Places a call at `point.at` or later, or says that it does not fit until `point.end`.
    fn place(&mut self, point: CostPoint) -> bool;
}

fn place(
    rule: &JudgedRule,
    calls: impl Iterator<Item = (usize, CostPoint)>,
    evidence: &KeyEvidence<'_>,
) -> Vec<usize> {
    let mut placements: Vec<Box<dyn CallPlacement + '_>> = match rule.promise {
        RulePromise::AtMost | RulePromise::SlidingLog | RulePromise::SteppedWindow { .. } => {
            vec![Box::new(UnitPlacement::new(rule, rule.limit, evidence.work))]
        }
        RulePromise::FixedWindow | RulePromise::SlidingWindow => {
            vec![Box::new(WindowPlacement::new(rule))]
        }
        // Any window of time touches two windows of the limiter, and n of them touch n + 1.
        RulePromise::LooseFixedWindow => {
            let most = rule.limit.saturating_mul(2);
            vec![
                Box::new(UnitPlacement::new(rule, most, evidence.work)),
                Box::new(BucketPlacement::new(rule, most)),
            ]
        }
        RulePromise::TokenBucket { burst } => vec![Box::new(BucketPlacement::new(rule, burst))],
    };
    let mut end = i64::MIN;
    let mut found = Vec::new();
    for (index, point) in calls {
        end = end.max(point.end);
        let point = CostPoint { end, ..point };
        if placements.iter_mut().any(|placement| !placement.place(point)) {
            found.push(index);
        }
    }
    found
}
