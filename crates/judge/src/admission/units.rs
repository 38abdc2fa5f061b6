//! Placement under a rule that lends units and gets each of them back after a while.

use std::collections::VecDeque;

use super::CallPlacement;
use crate::cost_curve::{CostPoint, WorkMeter};
use crate::rule::JudgedRule;

/// The units of a limit, by the time at which they are free.
pub(super) struct UnitPlacement<'a> {
    rule: &'a JudgedRule,
    work: &'a WorkMeter,
    /// In the order of time.
    free: VecDeque<FreeUnits>,
}

#[derive(Clone, Copy, Debug)]
struct FreeUnits {
    at: i64,
    units: u64,
}

/// Beyond this many, neighbours are joined at the earlier time, which can only excuse the limiter.
const MOST_RUNS: usize = 4_096;

impl<'a> UnitPlacement<'a> {
    pub(super) fn new(rule: &'a JudgedRule, limit: u64, work: &'a WorkMeter) -> Self {
        let all = FreeUnits { at: i64::MIN / 2, units: limit };
        Self { rule, work, free: VecDeque::from([all]) }
    }

    /// When so many units are free; `None` if there are fewer.
    fn free_at(&self, cost: u64) -> Option<i64> {
        let mut units = 0_u64;
        let run = self.free.iter().find(|run| {
            self.work.add(1);
            units = units.saturating_add(run.units);
            units >= cost
        });
        run.map(|run| run.at)
    }

    fn give_back(&mut self, at: i64, units: u64) {
        match self.free.back_mut() {
            Some(last) if last.at >= at => last.units += units,
            _ => self.free.push_back(FreeUnits { at, units }),
        }
        if self.free.len() > MOST_RUNS {
            self.join_neighbours();
        }
    }

    fn join_neighbours(&mut self) {
        let mut joined = VecDeque::with_capacity(MOST_RUNS);
        while let Some(mut run) = self.free.pop_front() {
            self.work.add(1);
            run.units += self.free.pop_front().map_or(0, |next| next.units);
            joined.push_back(run);
        }
        self.free = joined;
    }
}

impl CallPlacement for UnitPlacement<'_> {
    fn place(&mut self, point: CostPoint) -> bool {
        let fits = self.free_at(point.cost).is_some_and(|at| at <= point.end);
        let mut cost = if fits { point.cost } else { 0 };
        while cost > 0 {
            let Some(run) = self.free.front_mut() else { break };
            let (at, units) = (run.at.max(point.at), run.units.min(cost));
            run.units -= units;
            cost -= units;
            if run.units == 0 {
                self.free.pop_front();
            }
            let back = self.rule.leaves(at);
            self.give_back(back, units);
        }
        fits || point.cost == 0
    }
}
