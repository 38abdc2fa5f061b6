//! Fixed window: the hits of the latest window.

use tidegate_core::{Cost, Limit, Timestamp, Verdict};

use super::{Hit, Model, cost_of, micros, take_newest, units, verdict};

#[derive(Clone)]
pub(super) struct FixedWindow {
    limit: i128,
    window: i128,
    counts_denied: bool,
    /// When the window of the hits began.
    start: i128,
    hits: Vec<Hit>,
}

impl FixedWindow {
    pub(super) fn new(limit: &Limit) -> Self {
        let quota = limit.quota();
        let counts_denied = limit.counts_denied();
        let window = i128::from(quota.window().as_micros());
        let (limit, hits) = (i128::from(quota.limit()), Vec::new());
        Self { limit, window, counts_denied, start: i128::MIN / 2, hits }
    }

    /// Its state at `now`. If the clock went back to before the window, the window begins now.
    fn tidied(&self, now: i128) -> Self {
        let mut tidied = self.clone();
        if now >= self.start + self.window {
            tidied.hits.clear();
            tidied.start = now - now % self.window;
        } else if now < self.start {
            tidied.start = now;
        }
        tidied
    }

    fn count(&self) -> i128 {
        units(&self.hits, |_| true)
    }
}

impl Model for FixedWindow {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let tidied = self.tidied(now);
        let (end, count) = (tidied.start + self.window, tidied.count());
        verdict(self.limit, self.limit - count, cost, end - now, self.window, |wait| {
            tidied.tidied(now + wait).count() + cost <= self.limit
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        *self = self.tidied(micros(now));
        self.hits.push(Hit { at: micros(now), units: cost_of(cost) });
    }

    fn deny(&mut self, cost: Cost, now: Timestamp) {
        if self.counts_denied && cost_of(cost) <= self.limit {
            self.commit(cost, now);
        } else if micros(now) < self.start {
            *self = self.tidied(micros(now));
        }
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        *self = self.tidied(micros(now));
        take_newest(&mut self.hits, cost_of(amount));
    }

    fn adopt(&mut self, limit: &Limit) {
        let Self { limit, counts_denied, .. } = Self::new(limit);
        (self.limit, self.counts_denied) = (limit, counts_denied);
    }

    fn forget_at(&self) -> Timestamp {
        Timestamp::from_micros(u64::try_from(self.start + self.window).unwrap_or(0))
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
