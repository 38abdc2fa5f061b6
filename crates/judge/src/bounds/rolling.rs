//! Rules that keep a log of units, each of which leaves after a while.

use super::{RoomBounds, UsageModel, WaitBounds, left};
use crate::evidence::{KeyEvidence, NEVER};
use crate::rule::JudgedRule;

/// Units leave one window after they came, or after their step.
pub(super) struct RollingUsage<'a> {
    pub(super) rule: &'a JudgedRule,
    pub(super) evidence: &'a KeyEvidence<'a>,
}

impl RollingUsage<'_> {
    /// What had certainly been charged before the call, wherever it was decided.
    fn certain(&self, call: usize) -> u128 {
        let evidence = self.evidence;
        evidence.certain.ended.before(evidence.work, evidence.earliest(call))
    }

    /// What can have been charged before the call.
    fn possible(&self, call: usize) -> u128 {
        let evidence = self.evidence;
        evidence.possible.begun.up_to(evidence.work, evidence.latest(call)) - evidence.own(call)
    }

    fn least_used(&self, call: usize) -> u128 {
        let (evidence, latest) = (self.evidence, self.evidence.latest(call));
        let gone = |at| self.rule.leaves(at) <= latest;
        self.certain(call).saturating_sub(evidence.certain.begun.while_(evidence.work, gone))
    }

    fn most_used(&self, call: usize) -> u128 {
        let (evidence, earliest) = (self.evidence, self.evidence.earliest(call));
        let gone = |at| self.rule.leaves(at) <= earliest;
        self.possible(call).saturating_sub(evidence.possible.ended.while_(evidence.work, gone))
    }

    fn cost(&self, call: usize) -> u128 {
        self.evidence.calls.get(call).map_or(0, |call| u128::from(call.cost))
    }

    /// The time of the unit that has to leave first, if all units come as early as they can.
    fn least_wait(&self, call: usize) -> i64 {
        let (rule, evidence) = (self.rule, self.evidence);
        let excess = (self.certain(call) + self.cost(call)).saturating_sub(rule.limit.into());
        let first = evidence.certain.begun.reaching(evidence.work, excess);
        let wait = first.map_or(0, |at| rule.leaves(at) - evidence.latest(call));
        wait.max(0)
    }

    /// The same, if all come as late as they can.
    fn most_wait(&self, call: usize) -> Option<i64> {
        let (rule, evidence) = (self.rule, self.evidence);
        let (earliest, latest) = (evidence.earliest(call), evidence.latest(call));
        let excess = (self.possible(call) + self.cost(call)).saturating_sub(rule.limit.into());
        if excess == 0 {
            return Some(0);
        }
        let possible = &evidence.possible;
        let last = possible.ended.reaching(evidence.work, excess);
        // Among those that end later can be some that began after this call.
        let last = last
            .filter(|at| *at <= latest)
            .or_else(|| possible.begun.end_of(evidence.work, latest))
            .filter(|at| *at < NEVER)?;
        Some((rule.leaves(last) - earliest).max(0))
    }
}

impl UsageModel for RollingUsage<'_> {
    fn room(&self, call: usize) -> RoomBounds {
        let limit = self.rule.limit;
        RoomBounds {
            least: left(limit, self.most_used(call)),
            most: left(limit, self.least_used(call)),
        }
    }

    fn wait(&self, call: usize) -> WaitBounds {
        WaitBounds { least: self.least_wait(call), most: self.most_wait(call) }
    }
}

/// A fixed window that begins at any time: a unit counts for one window at most, and possibly not at
/// all.
pub(super) struct LooseUsage<'a> {
    pub(super) rule: &'a JudgedRule,
    pub(super) evidence: &'a KeyEvidence<'a>,
}

impl UsageModel for LooseUsage<'_> {
    fn room(&self, call: usize) -> RoomBounds {
        let log = RollingUsage { rule: self.rule, evidence: self.evidence };
        RoomBounds { least: log.room(call).least, most: self.rule.limit }
    }

    fn wait(&self, _call: usize) -> WaitBounds {
        WaitBounds { least: 0, most: Some(self.rule.window) }
    }
}
