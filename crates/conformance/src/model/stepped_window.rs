//! Stepped window: every hit, as if it had come at the end of its step.

use tidegate_core::{Cost, Limit, Timestamp, Verdict};

use super::{Hit, Model, cost_of, micros, pull_back, take_newest, units, verdict};

#[derive(Clone)]
pub(super) struct SteppedWindow {
    limit: i128,
    window: i128,
    steps: i128,
    /// At the ends of their steps.
    hits: Vec<Hit>,
}

impl SteppedWindow {
    pub(super) fn new(limit: &Limit) -> Self {
        let quota = limit.quota();
        let window = i128::from(quota.window().as_micros());
        let steps = i128::from(limit.steps().unwrap());
        Self { limit: i128::from(quota.limit()), window, steps, hits: Vec::new() }
    }

    /// The end of a step: steps are counted from the epoch, and some are a microsecond longer than
    /// others.
    fn end(&self, now: i128) -> i128 {
        let begins = |step: i128| (step * self.window + self.steps - 1) / self.steps;
        let about = now * self.steps / self.window;
        (about..).map(begins).find(|begin| *begin > now).unwrap()
    }

    /// How long a hit can count: a window and the longest step.
    fn period(&self) -> i128 {
        self.window + (self.window + self.steps - 1) / self.steps
    }

    /// If the newest hit would count for another two periods, the clock went back for good: hits in
    /// the future come at the end of this step.
    fn heal(&mut self, now: i128) {
        let newest = self.newest().unwrap_or(now);
        if newest + self.window - now > 2 * self.period() {
            self.drop_old(now);
            let end = self.end(now);
            pull_back(&mut self.hits, end);
        }
    }

    fn drop_old(&mut self, now: i128) {
        self.hits.retain(|hit| hit.at + self.window > now);
    }

    fn newest(&self) -> Option<i128> {
        self.hits.iter().map(|hit| hit.at).max()
    }
}

impl Model for SteppedWindow {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let mut tidied = self.clone();
        tidied.heal(now);
        tidied.drop_old(now);
        let hits = &tidied.hits;
        let reset = tidied.newest().map_or(0, |at| at + self.window - now);
        let count = units(hits, |_| true);
        verdict(self.limit, self.limit - count, cost, reset, 2 * self.period(), |wait| {
            units(hits, |hit| hit.at + self.window > now + wait) + cost <= self.limit
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        let now = micros(now);
        self.heal(now);
        let end = self.end(now);
        if self.newest().is_none_or(|newest| newest < end) {
            self.drop_old(now);
        }
        // After a small step back, the newest step goes on.
        let at = self.newest().unwrap_or(end).max(end);
        self.hits.push(Hit { at, units: cost_of(cost) });
    }

    fn deny(&mut self, _: Cost, now: Timestamp) {
        self.heal(micros(now));
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        self.heal(micros(now));
        take_newest(&mut self.hits, cost_of(amount));
    }

    fn adopt(&mut self, limit: &Limit) {
        let Self { limit, steps, .. } = Self::new(limit);
        (self.limit, self.steps) = (limit, steps);
    }

    fn forget_at(&self) -> Timestamp {
        let at = self.newest().map_or(0, |at| at + self.window);
        Timestamp::from_micros(u64::try_from(at).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
