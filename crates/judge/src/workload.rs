//! Calls that are likely to catch a limiter in the act, the same for the same seed.

use tidegate_core::{Span, SplitMix};

use crate::rule::JudgedRule;

/// What to ask of a limiter.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadPlan {
    /// The same seed gives the same calls.
    pub seed: u64,
    /// How many keys take part. Each has its own episodes.
    pub keys: u32,
    /// How many instances of the limiter there are.
    pub instances: u32,
    /// The largest cost; 1 if the limiter has no costs.
    pub most_cost: u64,
    /// The most calls of a burst.
    pub most_burst: u64,
    /// How long it takes.
    pub span: Span,
    /// When it begins, in microseconds since the epoch. Bursts are around the edges of windows.
    pub start: i64,
}

/// A call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// When, in microseconds since the start.
    pub at: i64,
    /// Which key.
    pub key: u32,
    /// What it costs.
    pub cost: u64,
    /// Which instance to ask.
    pub instance: u32,
}

impl WorkloadPlan {
    /// The calls, in the order of their times.
    pub fn calls(&self, rule: &JudgedRule) -> Vec<PlannedCall> {
        let mut calls: Vec<PlannedCall> =
            (0..self.keys).flat_map(|key| KeyEpisodes::new(self, rule, key).calls()).collect();
        calls.sort_by_key(|call| call.at);
        calls
    }
}

/// One key's calls: bursts, quiet times, edges of windows, one episode after the other.
struct KeyEpisodes<'a> {
    plan: &'a WorkloadPlan,
    rule: &'a JudgedRule,
    key: u32,
    random: SplitMix,
    now: i64,
    calls: Vec<PlannedCall>,
}

impl<'a> KeyEpisodes<'a> {
    fn new(plan: &'a WorkloadPlan, rule: &'a JudgedRule, key: u32) -> Self {
        let random = SplitMix::nth(plan.seed, key.into());
        Self { plan, rule, key, random, now: 0, calls: Vec::new() }
    }

    fn calls(mut self) -> Vec<PlannedCall> {
        let end = self.plan.span.as_micros().cast_signed();
        let mut first = true;
        while self.now < end {
            match self.below(if first { 3 } else { 6 }) {
                0 => self.burst(),
                1 => self.steady(),
                2 => self.around_an_edge(),
                3 => self.storm_and_trickle(),
                4 => self.now += self.rule.period() + self.upto(self.rule.window / 4),
                _ => self.now += self.upto(self.rule.window),
            }
            first = false;
        }
        self.calls.retain(|call| call.at < end);
        self.calls
    }

    fn below(&mut self, end: i64) -> i64 {
        let end = u128::from(end.max(1).unsigned_abs());
        i64::try_from((u128::from(self.random.bits()) * end) >> 64).unwrap_or(0)
    }

    fn upto(&mut self, most: i64) -> i64 {
        self.below(most.saturating_add(1))
    }

    fn call_at(&mut self, at: i64) {
        let most = self.plan.most_cost.max(1).cast_signed();
        // Mostly small costs: a large one hides how many small ones would have passed.
        let cost = if self.below(3) == 0 { 1 + self.below(most) } else { 1 };
        let instance = self.below(self.plan.instances.into());
        let (cost, instance) = (cost.unsigned_abs(), u32::try_from(instance).unwrap_or(0));
        self.calls.push(PlannedCall { at, key: self.key, cost, instance });
    }

    /// As many calls as can pass at once, and some more.
    fn full(&mut self) -> i64 {
        let capacity = self.rule.capacity().min(self.plan.most_burst).cast_signed();
        capacity + 1 + self.upto(capacity / 2 + 2)
    }

    fn burst(&mut self) {
        for _ in 0..self.full() {
            self.call_at(self.now);
        }
        self.now += 1 + self.upto(self.rule.window / 2);
    }

    /// A little more than the rate admits.
    fn steady(&mut self) {
        let gap = self.rule.window / self.rule.limit.min(1_000).cast_signed().max(1);
        for _ in 0..self.full() {
            self.call_at(self.now);
            self.now += self.upto(gap.saturating_mul(3) / 2).max(1);
        }
    }

    /// A burst right before the next edge, and another right after it.
    fn around_an_edge(&mut self) {
        let (start, window) = (self.plan.start, self.rule.window);
        let edge = self.rule.window_start(start + self.now + window / 8) + window - start;
        for side in [edge - window / 8, edge + window / 20] {
            self.now = side.max(self.now);
            for _ in 0..self.full() {
                self.call_at(self.now);
            }
        }
        self.now += 1 + self.upto(window / 2);
    }

    /// Many denials, and then single calls: those must pass as if the denials had not been.
    fn storm_and_trickle(&mut self) {
        for _ in 0..2 {
            self.burst();
        }
        let gap = self.rule.window / self.rule.limit.min(50).cast_signed().max(1);
        for _ in 0..self.rule.limit.min(8) {
            self.now += gap + self.upto(gap);
            self.call_at(self.now);
        }
        self.now += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::AlgorithmKind;

    #[test]
    fn the_same_seed_gives_the_same_calls() {
        let rule = JudgedRule::new(AlgorithmKind::FixedWindow, &"5/second".parse().unwrap());
        let plan = |seed| WorkloadPlan {
            seed,
            keys: 3,
            instances: 2,
            most_cost: 4,
            most_burst: 100,
            span: Span::from_secs(10),
            start: 1_763_000_000_123_456,
        };
        let calls = |seed| plan(seed).calls(rule.as_ref().unwrap());
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
        assert!(calls(1).is_sorted_by_key(|call| call.at));
        let all = calls(3);
        assert!(all.iter().all(|call| call.key < 3 && call.instance < 2 && call.cost <= 4));
        assert!(all.iter().any(|call| call.instance == 1) && all.iter().any(|call| call.cost > 1));
    }
}
