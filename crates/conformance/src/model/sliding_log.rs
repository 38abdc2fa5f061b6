//! Sliding log: every hit of the last window.

use tidegate_core::{Cost, Limit, Quota, Timestamp, Verdict};

use super::{Hit, Model, cost_of, micros, pull_back, take_newest, units, verdict};

#[derive(Clone)]
pub(super) struct SlidingLog {
    limit: i128,
    window: i128,
    hits: Vec<Hit>,
}

impl SlidingLog {
    pub(super) fn new(quota: &Quota) -> Self {
        let window = i128::from(quota.window().as_micros());
        Self { limit: i128::from(quota.limit()), window, hits: Vec::new() }
    }

    fn tidy(&mut self, now: i128) {
        self.hits.retain(|hit| hit.at > now - self.window);
        pull_back(&mut self.hits, now);
    }
}

impl Model for SlidingLog {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let mut tidied = self.clone();
        tidied.tidy(now);
        let hits = &tidied.hits;
        let newest = hits.iter().map(|hit| hit.at).max();
        let reset = newest.map_or(0, |at| at + self.window - now);
        let count = units(hits, |_| true);
        verdict(self.limit, self.limit - count, cost, reset, self.window, |wait| {
            units(hits, |hit| hit.at > now + wait - self.window) + cost <= self.limit
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        self.tidy(micros(now));
        self.hits.push(Hit { at: micros(now), units: cost_of(cost) });
    }

    fn deny(&mut self, _: Cost, now: Timestamp) {
        self.tidy(micros(now));
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        self.tidy(micros(now));
        take_newest(&mut self.hits, cost_of(amount));
    }

    fn adopt(&mut self, limit: &Limit) {
        self.limit = i128::from(limit.quota().limit());
    }

    fn forget_at(&self) -> Timestamp {
        let newest = self.hits.iter().map(|hit| hit.at).max();
        let at = newest.map_or(0, |at| at + self.window);
        Timestamp::from_micros(u64::try_from(at).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
