//! Token bucket: bursts up to a size, then a steady rate, exactly.

use super::arithmetic::{div_ceil, div_rem, narrow, product};
use super::{Algorithm, judge};
use crate::{Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// A bucket of `burst` tokens that refills at `limit` per window.
///
/// The state is the debt still to be refilled, measured in units such that a token is worth
/// `window` of them and a microsecond pays back `limit`. Both are whole numbers for every rate, so
/// 3 a second or 7 per 10 s stay exact forever: nothing is rounded, so nothing drifts. It is the
/// same law as GCRA, with the theoretical arrival time written as whole microseconds and a
/// remainder.
///
/// ```
/// use tidegate::algorithm::{Algorithm, TokenBucket};
/// use tidegate::{Cost, Span, Timestamp};
///
/// let limit = TokenBucket::from_quota(&"3/second burst 2".parse()?)?;
/// let (mut state, now) = (Default::default(), Timestamp::from_secs(1));
/// let _ = limit.commit(&mut state, Cost::new(2)?, now);
/// let verdict = limit.probe(&state, Cost::ONE, now);
/// assert_eq!(verdict.retry_after, Some(Span::from_micros(333_334)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    rate: u64,
    window: Span,
    burst: u64,
    /// How long the bucket takes to refill with one token already in it. Divided once, for all
    /// denials of the usual cost.
    but_one: Refill,
}

/// Whole microseconds, and a remainder in units of which a microsecond pays back the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Refill {
    micros: u64,
    rest: u64,
}

/// When the bucket is full again, and how that was calculated.
///
/// The debt at `now` is `rate * (full_at - now) + rest`. The rate is stored alongside, so that when
/// a limit changes the debt carries over in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    full_at: Timestamp,
    rest: u64,
    rate: u64,
}

impl Debt {
    #[inline]
    fn at(&self, now: Timestamp) -> u128 {
        if now > self.full_at {
            return 0;
        }
        product(self.rate, self.full_at.since(now).as_micros()) + u128::from(self.rest)
    }
}

impl TokenBucket {
    /// Rebuilds the state from what a store keeps: when the bucket is full, a remainder in units of
    /// which a microsecond pays back `rate`, and that rate.
    pub const fn state(full_at: Timestamp, rest: u64, rate: u64) -> Debt {
        Debt { full_at, rest, rate }
    }

    /// How long an empty bucket takes to refill `tokens`: whole microseconds, and a remainder in
    /// units of which a microsecond pays back the rate.
    pub fn refill_time(&self, tokens: u64) -> (u128, u64) {
        div_rem(self.worth(tokens), self.rate)
    }

    /// The debt of an empty bucket.
    #[inline]
    fn brim(&self) -> u128 {
        product(self.burst, self.window.as_micros())
    }

    #[inline]
    fn worth(&self, tokens: u64) -> u128 {
        product(tokens, self.window.as_micros())
    }

    /// Caps the debt at what an empty bucket owes. More can only come from a clock that went back
    /// or a burst that was lowered, and neither may deny anyone for longer than one refill.
    #[inline]
    fn debt(&self, state: &Debt, now: Timestamp) -> u128 {
        state.at(now).min(self.brim())
    }

    #[inline]
    fn owing(&self, debt: u128, now: Timestamp) -> Debt {
        let (micros, rest) = div_rem(debt, self.rate);
        Debt { full_at: now + Span::from_micros(narrow(micros)), rest, rate: self.rate }
    }

    #[inline]
    fn paid_in(&self, debt: u128) -> Span {
        Span::from_micros(narrow(div_ceil(debt, self.rate)))
    }

    /// A denial of one token, with a debt that was calculated by this limit:
    /// `ceil((debt + 1 token - a full bucket) / rate)`, from two quotients that are already known.
    #[inline]
    fn denial_of_one(&self, state: &Debt, now: Timestamp) -> Verdict {
        let until_full = state.full_at.since(now).as_micros();
        let wait = until_full.saturating_sub(self.but_one.micros)
            + u64::from(state.rest > self.but_one.rest);
        Verdict {
            allowed: false,
            limit: self.burst,
            remaining: 0,
            retry_after: Some(Span::from_micros(wait)),
            reset_after: Self::forget_at(state).since(now),
        }
    }

    #[inline(always)]
    fn verdict(&self, debt: u128, cost: Cost, reset_after: Span) -> Verdict {
        let (tokens, _) = div_rem(self.brim().saturating_sub(debt), self.window.as_micros());
        judge(self.burst, narrow(tokens), cost, reset_after, || {
            self.paid_in((debt + self.worth(cost.get())).saturating_sub(self.brim()))
        })
    }
}

impl Algorithm for TokenBucket {
    type State = Debt;

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        let burst = quota.burst().unwrap_or(quota.limit());
        let (rate, window) = (quota.limit(), quota.window());
        let but_one = Refill::default();
        let bucket = Self { rate, window, burst, but_one };
        if quota.limit() == 0 && quota.burst().is_some() {
            return Err(QuotaError::new(
                quota,
                "a bucket that never refills; expected a limit of 1 or more",
            ));
        }
        if bucket.period() > LONGEST_REFILL {
            return Err(QuotaError::new(
                quota,
                format!(
                    "a burst of {burst} takes too long to refill; expected at most {LONGEST_REFILL}"
                ),
            ));
        }
        let (micros, rest) = bucket.refill_time(burst.saturating_sub(1));
        Ok(Self { but_one: Refill { micros: narrow(micros), rest }, ..bucket })
    }

    fn quota(&self) -> Quota {
        let burst = if self.burst == self.rate { None } else { Some(self.burst) };
        Quota::trusted(self.rate, self.window, burst)
    }

    fn capacity(&self) -> u64 {
        self.burst
    }

    fn period(&self) -> Span {
        self.paid_in(self.brim())
    }

    #[inline]
    fn admits(&self, state: &Debt, cost: Cost, now: Timestamp) -> bool {
        self.burst > 0 && self.debt(state, now) + self.worth(cost.get()) <= self.brim()
    }

    #[inline]
    fn probe(&self, state: &Debt, cost: Cost, now: Timestamp) -> Verdict {
        let (stored, debt) = (state.at(now), self.debt(state, now));
        // The state says when it is full, unless another limit calculated it.
        if stored != debt || state.rate != self.rate {
            return self.verdict(debt, cost, self.paid_in(debt));
        }
        if cost == Cost::ONE && self.burst > 0 && debt + self.worth(1) > self.brim() {
            return self.denial_of_one(state, now);
        }
        self.verdict(debt, cost, Self::forget_at(state).since(now))
    }

    #[inline(always)]
    fn commit(&self, state: &mut Debt, cost: Cost, now: Timestamp) -> Verdict {
        let debt = self.debt(state, now) + self.worth(cost.get());
        *state = self.owing(debt, now);
        self.verdict(debt, Cost::PEEK, Self::forget_at(state).since(now))
    }

    #[inline]
    fn deny(&self, state: &mut Debt, _cost: Cost, now: Timestamp) {
        // Applies to a changed limit too: from now on the debt is repaid at the new rate.
        let (stored, debt) = (state.at(now), self.debt(state, now));
        if stored > debt || (debt > 0 && state.rate != self.rate) {
            *state = self.owing(debt, now);
        }
    }

    fn refund(&self, state: &mut Debt, amount: Cost, now: Timestamp) {
        let debt = self.debt(state, now);
        // A full bucket stays as it is: with a new timestamp, it would owe something if the clock
        // went back.
        if debt > 0 {
            *state = self.owing(debt.saturating_sub(self.worth(amount.get())), now);
        }
    }

    #[inline]
    fn forget_at(state: &Debt) -> Timestamp {
        state.full_at + Span::from_micros(u64::from(state.rest > 0))
    }
}

/// A state has to be forgotten eventually: no key is kept for longer than two of the longest
/// windows.
const LONGEST_REFILL: Span = Span::from_days(800);

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(quota: &str) -> TokenBucket {
        TokenBucket::from_quota(&quota.parse().unwrap()).unwrap()
    }

    #[test]
    fn rates_are_exact_for_ever() {
        for (quota, rate, seconds) in
            [("3/second burst 1", 3, 1_000), ("7 per 10s burst 1", 7, 1_000)]
        {
            let (limit, mut state, mut now) = (bucket(quota), Debt::default(), Timestamp::ZERO);
            let mut admitted = 0;
            let end = limit.window.as_micros() * seconds;
            while now.as_micros() < end {
                let verdict = limit.probe(&state, Cost::ONE, now);
                if verdict.allowed {
                    admitted += 1;
                    let _ = limit.commit(&mut state, Cost::ONE, now);
                }
                let wait = limit.probe(&state, Cost::ONE, now).retry_after;
                now = now + wait.unwrap_or(Span::from_micros(1));
            }
            assert_eq!(admitted, rate * seconds, "{quota}");
        }
    }

    #[test]
    fn a_raised_limit_keeps_the_count_and_helps_at_once() {
        let now = Timestamp::from_secs(100);
        let mut state = Debt::default();
        let _ = bucket("10/day").commit(&mut state, Cost::new(10).unwrap(), now);
        assert_eq!(bucket("100/day").probe(&state, Cost::ONE, now).remaining, 90);
    }

    #[test]
    fn a_lowered_burst_denies_for_one_refill_at_most() {
        let now = Timestamp::from_secs(100);
        let mut state = Debt::default();
        let _ = bucket("1/second burst 1000").commit(&mut state, Cost::new(1000).unwrap(), now);
        let verdict = bucket("1/second burst 5").probe(&state, Cost::new(5).unwrap(), now);
        assert_eq!(verdict.retry_after, Some(Span::from_secs(5)));
    }

    #[test]
    fn what_would_never_refill_is_refused() {
        for text in ["0/second burst 5", "1/day burst 1000"] {
            let error = TokenBucket::from_quota(&text.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains("expected"), "{error}");
        }
        assert!(!bucket("0/second").probe(&Debt::default(), Cost::PEEK, Timestamp::ZERO).allowed);
    }
}
