//! Token bucket: textbook GCRA, on an exact fraction.

use tidegate_core::{Cost, Limit, Quota, Timestamp, Verdict};

use super::{Model, cost_of, micros, verdict};

/// A theoretical arrival time of `arrival / paid` microseconds, where `paid` is the rate of the last
/// charge: a token takes `window / paid`.
#[derive(Clone)]
pub(super) struct TokenBucket {
    rate: i128,
    window: i128,
    burst: i128,
    arrival: i128,
    paid: i128,
    /// The longest that a refill can take at the pace of the last charge.
    longest: i128,
}

impl TokenBucket {
    pub(super) fn new(quota: &Quota) -> Self {
        let rate = i128::from(quota.limit());
        let burst = quota.burst_size().map_or(rate, i128::from);
        let window = i128::from(quota.window().as_micros());
        Self { rate, window, burst, arrival: 0, paid: 1, longest: 0 }
    }

    /// The first power of eight of windows in which such a bucket refills, below 8^7; a whole number of
    /// them, or as long as any limit may take.
    fn longest_refill(&self) -> i128 {
        let most = i128::from(tidegate_core::Span::from_days(800).as_micros());
        let holds = |windows: &i128| self.burst <= self.rate * windows;
        let windows = (0..7).map(|class| 8_i128.pow(class)).find(holds);
        windows.map_or(most, |windows| most.min(windows * self.window))
    }

    fn brim(&self) -> i128 {
        self.burst * self.window
    }

    fn debt(&self, now: i128) -> i128 {
        (self.arrival - now * self.paid).max(0)
    }

    /// Its state at `now`. More debt than this bucket holds may be another limit's; more than twice the
    /// debt that the last charge can have left is from the future.
    fn tidied(&self, now: i128) -> Self {
        let is_far = self.arrival / self.paid - now > 2 * self.longest;
        let mut tidied = self.clone();
        if is_far && self.debt(now) > self.brim() {
            tidied.arrival = (now + self.longest) * self.paid;
        }
        tidied
    }
}

impl Model for TokenBucket {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let tidied = self.tidied(now);
        let tokens = (self.brim() - tidied.debt(now)).max(0) / self.window;
        let reset = (tidied.debt(now) + self.paid - 1) / self.paid;
        // When all of it is paid back, at the latest.
        verdict(self.burst, tokens, cost, reset, reset.max(1), |wait| {
            tidied.debt(now + wait) + cost * self.window <= self.brim()
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        let now = micros(now);
        let debt = self.tidied(now).debt(now) + cost_of(cost) * self.window;
        (self.paid, self.longest) = (self.rate, self.longest_refill());
        self.arrival = now * self.paid + debt;
    }

    fn deny(&mut self, _: Cost, now: Timestamp) {
        *self = self.tidied(micros(now));
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        let now = micros(now);
        let debt = self.tidied(now).debt(now);
        if debt > 0 {
            let left = (debt - cost_of(amount) * self.window).max(0);
            self.arrival = now * self.paid + left;
        }
    }

    fn adopt(&mut self, limit: &Limit) {
        let Self { rate, burst, .. } = Self::new(&limit.quota());
        (self.rate, self.burst) = (rate, burst);
    }

    fn forget_at(&self) -> Timestamp {
        let at = (self.arrival + self.paid - 1) / self.paid;
        Timestamp::from_micros(u64::try_from(at).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
