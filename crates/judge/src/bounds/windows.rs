//! Rules with windows that are aligned to the epoch.

use super::{RoomBounds, UsageModel, WaitBounds, left};
use crate::evidence::KeyEvidence;
use crate::rule::JudgedRule;

/// A window in which a call can have been decided, and when.
#[derive(Clone, Copy, Debug)]
struct WindowCase {
    start: i64,
    end: i64,
    earliest: i64,
    latest: i64,
}

/// The windows in which a call can have been decided; none if there are too many to be worth a look.
fn cases(rule: &JudgedRule, evidence: &KeyEvidence<'_>, call: usize) -> Vec<WindowCase> {
    let (earliest, latest) = (evidence.earliest(call), evidence.latest(call));
    let (first, last) = (rule.window_start(earliest), rule.window_start(latest));
    let mut cases = Vec::with_capacity(1);
    let mut start = first;
    while start <= last && cases.len() < MOST_CASES {
        let end = start + rule.window;
        let (earliest, latest) = (earliest.max(start), latest.min(end - 1));
        cases.push(WindowCase { start, end, earliest, latest });
        start = end;
    }
    if start <= last { Vec::new() } else { cases }
}

const MOST_CASES: usize = 4;

/// A count for each window.
pub(super) struct WindowUsage<'a> {
    pub(super) rule: &'a JudgedRule,
    pub(super) evidence: &'a KeyEvidence<'a>,
}

impl WindowUsage<'_> {
    fn least_used(&self, case: WindowCase, call: usize) -> u128 {
        let KeyEvidence { certain, work, .. } = self.evidence;
        let before = certain.ended.before(work, self.evidence.earliest(call));
        before.saturating_sub(certain.begun.before(work, case.start))
    }

    fn most_used(&self, case: WindowCase, call: usize) -> u128 {
        let KeyEvidence { possible, work, .. } = self.evidence;
        let begun = possible.begun.up_to(work, case.latest) - self.evidence.own(call);
        begun.saturating_sub(possible.ended.before(work, case.start))
    }
}

impl UsageModel for WindowUsage<'_> {
    fn room(&self, call: usize) -> RoomBounds {
        let cases = cases(self.rule, self.evidence, call);
        let limit = self.rule.limit;
        let least = cases.iter().map(|case| left(limit, self.most_used(*case, call)));
        let most = cases.iter().map(|case| left(limit, self.least_used(*case, call)));
        RoomBounds { least: least.min().unwrap_or(0), most: most.max().unwrap_or(limit) }
    }

    fn wait(&self, call: usize) -> WaitBounds {
        let cost = self.evidence.calls.get(call).map_or(0, |call| call.cost);
        let cases = cases(self.rule, self.evidence, call).into_iter();
        // Only windows in which it can have been denied.
        let full = cases.filter(|case| left(self.rule.limit, self.most_used(*case, call)) < cost);
        // A call that read the clock before the edge can come after one that read it later: it then
        // waits for the end of the next window.
        let waits = full.map(|case| WaitBounds {
            least: case.end - case.latest,
            most: Some(case.end - self.evidence.earliest(call)),
        });
        waits.reduce(WaitBounds::or).unwrap_or(WaitBounds::UNKNOWN)
    }
}

/// Two counts: that of the window before weighs by how much of it is still in view.
pub(super) struct SlidingUsage<'a> {
    pub(super) rule: &'a JudgedRule,
    pub(super) evidence: &'a KeyEvidence<'a>,
}

/// The count of the window before, and of the current one.
#[derive(Clone, Copy, Debug)]
struct CountPair {
    previous: u128,
    current: u128,
}

impl SlidingUsage<'_> {
    const fn counts(&self) -> WindowUsage<'_> {
        WindowUsage { rule: self.rule, evidence: self.evidence }
    }

    fn least_used(&self, case: WindowCase, call: usize) -> CountPair {
        let KeyEvidence { certain, work, .. } = self.evidence;
        let before = certain.begun.before(work, case.start - self.rule.window);
        CountPair {
            previous: certain.ended.before(work, case.start).saturating_sub(before),
            current: self.counts().least_used(case, call),
        }
    }

    fn most_used(&self, case: WindowCase, call: usize) -> CountPair {
        let KeyEvidence { possible, work, .. } = self.evidence;
        let begun = possible.begun.before(work, case.start);
        let is_counted = self.evidence.earliest(call) < case.start;
        let own = if is_counted { self.evidence.own(call) } else { 0 };
        let before = possible.ended.before(work, case.start - self.rule.window);
        CountPair {
            previous: (begun - own).saturating_sub(before),
            current: self.counts().most_used(case, call),
        }
    }

    /// What is left when so much of the window before is in view.
    fn left(&self, counts: CountPair, view: i64) -> u64 {
        let window = u128::from(self.rule.window.unsigned_abs());
        let used = counts.previous * u128::from(view.unsigned_abs()) + counts.current * window;
        left(self.rule.limit, used.div_ceil(window))
    }

    /// When a cost fits, if nothing else comes.
    fn fits_at(&self, counts: CountPair, cost: u64, end: i64) -> i64 {
        let (limit, cost) = (u128::from(self.rule.limit), u128::from(cost));
        let window = u128::from(self.rule.window.unsigned_abs());
        let view = |room: u128, weight: u128| {
            let view = (room * window).checked_div(weight).unwrap_or(window).min(window);
            i64::try_from(view).unwrap_or(self.rule.window)
        };
        match limit.checked_sub(counts.current + cost) {
            Some(room) => end - view(room, counts.previous),
            None => end + self.rule.window - view(limit.saturating_sub(cost), counts.current),
        }
    }
}

impl UsageModel for SlidingUsage<'_> {
    fn room(&self, call: usize) -> RoomBounds {
        let cases = cases(self.rule, self.evidence, call);
        let least = cases
            .iter()
            .map(|case| self.left(self.most_used(*case, call), case.end - case.earliest));
        let most = cases
            .iter()
            .map(|case| self.left(self.least_used(*case, call), case.end - case.latest));
        RoomBounds { least: least.min().unwrap_or(0), most: most.max().unwrap_or(self.rule.limit) }
    }

    fn wait(&self, call: usize) -> WaitBounds {
        let cost = self.evidence.calls.get(call).map_or(0, |call| call.cost);
        let waits = cases(self.rule, self.evidence, call).into_iter().filter_map(|case| {
            let most = self.most_used(case, call);
            let can_be_full = self.left(most, case.end - case.earliest) < cost;
            let least = self.least_used(case, call);
            can_be_full.then(|| WaitBounds {
                least: (self.fits_at(least, cost, case.end) - case.latest).max(0),
                most: Some(
                    (self.fits_at(most, cost, case.end) - self.evidence.earliest(call)).max(0),
                ),
            })
        });
        waits.reduce(WaitBounds::or).unwrap_or(WaitBounds::UNKNOWN)
    }
}
