//! Sliding-window counter: the hits of two windows, weighted.

use tidegate_core::{Cost, Quota, Timestamp, Verdict};

use super::{Hit, Model, cost_of, first, micros, pull_back, take_newest, units, verdict};

#[derive(Clone)]
pub(super) struct SlidingWindow {
    limit: i128,
    window: i128,
    hits: Vec<Hit>,
}

impl SlidingWindow {
    pub(super) fn new(quota: &Quota) -> Self {
        let window = i128::from(quota.window().as_micros());
        Self { limit: i128::from(quota.limit()), window, hits: Vec::new() }
    }

    /// Units in the window that is `back` windows before the one at `now`.
    fn count(&self, now: i128, back: i128) -> i128 {
        units(&self.hits, |hit| hit.at / self.window == now / self.window - back)
    }

    /// `previous * (1 - e/W) + current`, times W.
    fn weight(&self, now: i128) -> i128 {
        let elapsed = now % self.window;
        self.count(now, 1) * (self.window - elapsed) + self.count(now, 0) * self.window
    }

    fn admits(&self, cost: i128, now: i128) -> bool {
        self.weight(now) + cost * self.window <= self.limit * self.window
    }

    fn went_back(&self, now: i128) -> bool {
        self.hits.iter().any(|hit| hit.at / self.window > now / self.window)
    }

    /// Its state at `now`: two windows, neither later than the current one.
    fn tidied(&self, now: i128) -> Self {
        let mut tidied = self.clone();
        if self.went_back(now) {
            pull_back(&mut tidied.hits, now - now % self.window);
            let total = units(&tidied.hits, |_| true).min(self.limit);
            tidied.hits = vec![Hit { at: now, units: total }];
        }
        tidied.hits.retain(|hit| hit.at / self.window >= now / self.window - 1);
        tidied
    }
}

impl Model for SlidingWindow {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let tidied = self.tidied(now);
        let left = (self.limit * self.window - tidied.weight(now)).div_euclid(self.window);
        let reset = first(0, 2 * self.window, |wait| tidied.weight(now + wait) == 0);
        verdict(self.limit, left, cost, reset, 2 * self.window, |wait| {
            tidied.admits(cost, now + wait)
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        *self = self.tidied(micros(now));
        self.hits.push(Hit { at: micros(now), units: cost_of(cost) });
    }

    fn deny(&mut self, _: Cost, now: Timestamp) {
        if self.went_back(micros(now)) {
            *self = self.tidied(micros(now));
        }
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        *self = self.tidied(micros(now));
        take_newest(&mut self.hits, cost_of(amount));
    }

    fn adopt(&mut self, quota: &Quota, _: Timestamp) {
        self.limit = i128::from(quota.limit());
    }

    fn forget_at(&self) -> Timestamp {
        let newest = self.hits.iter().map(|hit| hit.at).max();
        let at = newest.map_or(0, |at| (at / self.window + 2) * self.window);
        Timestamp::from_micros(u64::try_from(at).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
