//! Fixed window: the hits of the latest window.

use tidegate_core::{Cost, Limit, Quota, Timestamp, Verdict};

use super::{Hit, Model, cost_of, micros, pull_back, take_newest, units, verdict};

#[derive(Clone)]
pub(super) struct FixedWindow {
    limit: i128,
    window: i128,
    counts_denied: bool,
    hits: Vec<Hit>,
}

impl FixedWindow {
    pub(super) fn new(limit: &Limit) -> Self {
        let quota = limit.quota();
        let counts_denied = matches!(limit, Limit::FixedWindow(fixed) if fixed.counts_denied());
        let window = i128::from(quota.window().as_micros());
        Self { limit: i128::from(quota.limit()), window, counts_denied, hits: Vec::new() }
    }

    /// The hits that count at `now`: those of its window, and of a later one.
    fn count(&self, now: i128) -> i128 {
        units(&self.hits, |hit| hit.at / self.window >= now / self.window)
    }

    fn went_back(&self, now: i128) -> bool {
        self.hits.iter().any(|hit| hit.at / self.window > now / self.window)
    }

    fn forget_earlier_windows(&mut self, now: i128) {
        self.hits.retain(|hit| hit.at / self.window >= now / self.window);
        pull_back(&mut self.hits, now);
    }
}

impl Model for FixedWindow {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let end = (now / self.window + 1) * self.window;
        let count = self.count(now);
        verdict(self.limit, self.limit - count, cost, end - now, self.window, |wait| {
            let count = if now + wait < end { count } else { 0 };
            count + cost <= self.limit
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        self.forget_earlier_windows(micros(now));
        self.hits.push(Hit { at: micros(now), units: cost_of(cost) });
    }

    fn deny(&mut self, cost: Cost, now: Timestamp) {
        if self.counts_denied {
            self.commit(cost, now);
        } else if self.went_back(micros(now)) {
            self.forget_earlier_windows(micros(now));
        }
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        self.forget_earlier_windows(micros(now));
        take_newest(&mut self.hits, cost_of(amount));
    }

    fn adopt(&mut self, quota: &Quota, _: Timestamp) {
        self.limit = i128::from(quota.limit());
    }

    fn forget_at(&self) -> Timestamp {
        let newest = self.hits.iter().map(|hit| hit.at).max();
        let end = newest.map_or(0, |at| (at / self.window + 1) * self.window);
        Timestamp::from_micros(u64::try_from(end).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
