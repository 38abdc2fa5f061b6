//! Sliding-window counter: the hits of two windows, weighted.

use tidegate_core::{Cost, Limit, Quota, Timestamp, Verdict};

use super::{Hit, Model, cost_of, first, micros, take_newest, units, verdict};

#[derive(Clone)]
pub(super) struct SlidingWindow {
    limit: i128,
    window: i128,
    hits: Vec<Hit>,
    /// The number of the window in which it last changed.
    latest: i128,
}

impl SlidingWindow {
    pub(super) fn new(quota: &Quota) -> Self {
        let window = i128::from(quota.window().as_micros());
        Self { limit: i128::from(quota.limit()), window, hits: Vec::new(), latest: -2 }
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

    /// By how many windows its latest change lies in the future.
    fn ahead(&self, now: i128) -> i128 {
        (self.latest - now / self.window).max(0)
    }

    /// Its state at `now`: two windows, neither later than the current one.
    fn tidied(&self, now: i128) -> Self {
        let mut tidied = self.clone();
        if self.ahead(now) > 0 {
            let total = units(&tidied.hits, |_| true);
            tidied.hits = vec![Hit { at: now, units: total }];
        }
        tidied.hits.retain(|hit| hit.at / self.window >= now / self.window - 1);
        tidied.latest = now / self.window;
        tidied
    }

    /// What changes at `now`: its state, unless the clock may come forward again. Returns when it
    /// happens.
    fn tidy(&mut self, now: i128) -> i128 {
        if matches!(self.ahead(now), 1 | 2) {
            return self.latest * self.window;
        }
        *self = self.tidied(now);
        now
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
        let at = self.tidy(micros(now));
        self.hits.push(Hit { at, units: cost_of(cost) });
    }

    fn deny(&mut self, _: Cost, now: Timestamp) {
        if self.ahead(micros(now)) > 0 {
            self.tidy(micros(now));
        }
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        self.tidy(micros(now));
        take_newest(&mut self.hits, cost_of(amount));
    }

    fn adopt(&mut self, limit: &Limit) {
        self.limit = i128::from(limit.quota().limit());
    }

    fn forget_at(&self) -> Timestamp {
        let at = (self.latest + 2) * self.window;
        Timestamp::from_micros(u64::try_from(at).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
