//! Token bucket: textbook GCRA, on an exact fraction.

use tidegate_core::{Cost, Quota, Timestamp, Verdict};

use super::{Model, cost_of, micros, verdict};

/// A theoretical arrival time of `arrival / rate` microseconds: a token takes `window / rate`.
#[derive(Clone)]
pub(super) struct TokenBucket {
    rate: i128,
    window: i128,
    burst: i128,
    arrival: i128,
}

impl TokenBucket {
    pub(super) fn new(quota: &Quota) -> Self {
        let rate = i128::from(quota.limit());
        let burst = quota.burst().map_or(rate, i128::from);
        Self { rate, window: i128::from(quota.window().as_micros()), burst, arrival: 0 }
    }

    /// `max(now, TAT)`, and no later than an empty bucket's, times the rate.
    fn arrival(&self, now: i128) -> i128 {
        self.arrival.clamp(now * self.rate, now * self.rate + self.burst * self.window)
    }
}

impl Model for TokenBucket {
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict {
        let (now, cost) = (micros(now), cost_of(cost));
        let debt = self.arrival(now) - now * self.rate;
        let tokens = (self.burst * self.window - debt) / self.window;
        let span = |debt: i128| if self.rate == 0 { 0 } else { (debt + self.rate - 1) / self.rate };
        let period = span(self.burst * self.window);
        let arrival = self.arrival(now);
        verdict(self.burst, tokens, cost, span(debt), period, |wait| {
            let later = (now + wait) * self.rate;
            arrival.max(later) + cost * self.window - self.burst * self.window <= later
        })
    }

    fn commit(&mut self, cost: Cost, now: Timestamp) {
        self.arrival = self.arrival(micros(now)) + cost_of(cost) * self.window;
    }

    fn deny(&mut self, _: Cost, now: Timestamp) {
        self.arrival = self.arrival.min(self.arrival(micros(now)));
    }

    fn refund(&mut self, amount: Cost, now: Timestamp) {
        let lower = self.arrival(micros(now)) - cost_of(amount) * self.window;
        self.arrival = self.arrival.min(lower.max(micros(now) * self.rate));
    }

    fn adopt(&mut self, quota: &Quota, now: Timestamp) {
        let debt = (self.arrival - micros(now) * self.rate).max(0);
        let adopted = Self::new(quota);
        if adopted.rate != self.rate {
            self.arrival = micros(now) * adopted.rate + debt;
        }
        *self = Self { arrival: self.arrival, ..adopted };
    }

    fn forget_at(&self) -> Timestamp {
        if self.rate == 0 {
            return Timestamp::ZERO;
        }
        let at = (self.arrival + self.rate - 1) / self.rate;
        Timestamp::from_micros(u64::try_from(at).unwrap())
    }

    fn copy(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
