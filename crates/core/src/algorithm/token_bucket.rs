//! Token bucket: bursts up to a size, then a steady rate, exactly.

mod debt;
#[cfg(test)]
mod tests;

use self::debt::{BucketDebt, BucketPace, LONGEST_REFILL};
use super::arithmetic::{div_ceil, div_rem, narrow, product};
use super::{AdmissionBound, Algorithm, judge};
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
///
/// Without a burst in the quota, the bucket holds `limit` tokens. A burst above the limit is possible; it
/// then takes longer than a window to refill, and [`Algorithm::period`] says how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    rate: u64,
    window: Span,
    burst: u64,
    pace: BucketPace,
    /// How long the bucket takes to refill with one token already in it. Computed once, because every
    /// denial of one token needs it.
    but_one: RefillTime,
}

/// A refill time: whole microseconds, and a remainder in units of which a microsecond pays back the
/// rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RefillTime {
    micros: u64,
    rest: u64,
}

impl TokenBucket {
    /// Rebuilds the state from what a store keeps: when the bucket is full, a remainder, and the
    /// [pace](Self::pace) of the limit that took tokens last.
    pub const fn state(full_at: Timestamp, rest: u64, pace: u64) -> BucketDebt {
        BucketDebt { full_at, rest, pace: BucketPace(pace) }
    }

    /// What a store keeps of the limit that took tokens last, below 2^53: its rate in the lower 50 bits,
    /// and above them a class c, for which a refill takes at most 8^c windows (7: any time).
    pub const fn pace(&self) -> u64 {
        self.pace.0
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

    /// The state as of `now`, if it has to be pulled back: more than twice the debt that its writer could
    /// have made can only come from a clock that went back, and must not make callers wait for long.
    ///
    /// A smaller step back leaves the state alone. If the debt were cut to that of an empty bucket right
    /// away, a clock that goes back and forth would pay it back in no time.
    #[cold]
    fn pulled_back(&self, state: &BucketDebt, now: Timestamp) -> Option<BucketDebt> {
        let longest = state.pace.longest(self.window);
        let is_far = state.full_at.since(now) > longest + longest;
        is_far.then(|| BucketDebt { full_at: now + longest, rest: 0, pace: state.pace })
    }

    /// The debt. It can exceed that of an empty bucket, if another limit took the tokens.
    #[inline]
    fn debt(&self, state: &BucketDebt, now: Timestamp) -> u128 {
        let debt = state.at(now);
        if debt <= self.brim() {
            return debt;
        }
        self.pulled_back(state, now).map_or(debt, |state| state.at(now))
    }

    #[inline]
    fn paid_in(&self, debt: u128) -> Span {
        Span::from_micros(narrow(div_ceil(debt, self.rate)))
    }

    /// A denial of one token, with a debt that was made by this limit:
    /// `ceil((debt + 1 token - a full bucket) / rate)`, from two quotients that are already known.
    #[inline]
    fn denial_of_one(&self, state: &BucketDebt, now: Timestamp) -> Verdict {
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

    /// The verdict on a state that is not from the future.
    #[inline(always)]
    fn verdict(&self, state: &BucketDebt, debt: u128, cost: Cost, now: Timestamp) -> Verdict {
        let (tokens, _) = div_rem(self.brim().saturating_sub(debt), self.window.as_micros());
        judge(self.burst, narrow(tokens), cost, Self::forget_at(state).since(now), || {
            let excess = (debt + self.worth(cost.get())).saturating_sub(self.brim());
            // The limit that took tokens last also determines how fast they refill.
            Span::from_micros(narrow(div_ceil(excess, state.pace.rate())))
        })
    }
}

impl Algorithm for TokenBucket {
    type State = BucketDebt;

    const LETTER: u8 = b'v';
    const SUMMARY: &'static str = "bursts up to a size, then a steady rate, exactly";
    const TAKES_BURST: bool = true;
    const KNOWS_OTHER_COSTS: bool = true;

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        let burst = quota.burst_size().unwrap_or(quota.limit());
        let (rate, window) = (quota.limit(), quota.window());
        let (pace, but_one) = (BucketPace::new(rate, burst), RefillTime::default());
        let bucket = Self { rate, window, burst, pace, but_one };
        if quota.burst_size() == Some(0) {
            return Err(QuotaError::new(
                quota,
                "a bucket that holds nothing; expected a burst of 1 or more",
            ));
        }
        if quota.limit() == 0 && quota.burst_size().is_some() {
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
        Ok(Self { but_one: RefillTime { micros: narrow(micros), rest }, ..bucket })
    }

    fn quota(&self) -> Quota {
        let burst = if self.burst == self.rate { None } else { Some(self.burst) };
        Quota::trusted(self.rate, self.window, burst)
    }

    fn capacity(&self) -> u64 {
        self.burst
    }

    fn bound(&self) -> AdmissionBound {
        AdmissionBound { at_once: self.burst, per_window: self.rate, longest: None }
    }

    fn most_in_a_window(&self) -> u64 {
        self.rate.saturating_add(self.burst)
    }

    fn period(&self) -> Span {
        self.paid_in(self.brim())
    }

    #[inline]
    fn admits(&self, state: &BucketDebt, cost: Cost, now: Timestamp) -> bool {
        // A peek always fits, even if another limit took more than this one holds.
        let debt = self.debt(state, now).min(self.brim());
        self.burst > 0 && debt + self.worth(cost.get()) <= self.brim()
    }

    #[inline]
    fn probe(&self, state: &BucketDebt, cost: Cost, now: Timestamp) -> Verdict {
        let debt = state.at(now);
        if debt > self.brim() {
            let state = self.pulled_back(state, now).unwrap_or(*state);
            return self.verdict(&state, state.at(now), cost, now);
        }
        let is_own = state.pace == self.pace;
        if is_own && cost == Cost::ONE && self.burst > 0 && debt + self.worth(1) > self.brim() {
            return self.denial_of_one(state, now);
        }
        self.verdict(state, debt, cost, now)
    }

    #[inline(always)]
    fn commit(&self, state: &mut BucketDebt, cost: Cost, now: Timestamp) -> Verdict {
        let debt = self.debt(state, now) + self.worth(cost.get());
        *state = BucketDebt::of(debt, self.pace, now);
        self.verdict(state, debt, Cost::PEEK, now)
    }

    #[inline]
    fn deny(&self, state: &mut BucketDebt, _cost: Cost, now: Timestamp) {
        if state.at(now) > self.brim()
            && let Some(pulled_back) = self.pulled_back(state, now)
        {
            *state = pulled_back;
        }
    }

    fn refund(&self, state: &mut BucketDebt, amount: Cost, now: Timestamp) {
        let debt = self.debt(state, now);
        // A full bucket stays as it is: with a new timestamp, it would have a debt if the clock went
        // back. The pace stays too: a refund must not make others wait longer.
        if debt > 0 {
            let left = debt.saturating_sub(self.worth(amount.get()));
            *state = BucketDebt::of(left, state.pace, now);
        }
    }

    #[inline]
    fn forget_at(state: &BucketDebt) -> Timestamp {
        state.full_at + Span::from_micros(u64::from(state.rest > 0))
    }

    fn encode(state: &BucketDebt, out: &mut Vec<u8>) {
        state.encode(out);
    }

    fn decode(&self, raw: &[u8]) -> Option<BucketDebt> {
        BucketDebt::decode(raw)
    }

    /// The debt follows from the time until the bucket is full, to a microsecond.
    fn at_another_cost(&self, verdict: Verdict, before: Cost, cost: Cost) -> Option<Verdict> {
        let now = Timestamp::from_secs(1);
        let debt = BucketDebt { full_at: now + verdict.reset_after, rest: 0, pace: self.pace };
        // Another limit with the same counter can refill it at another rate.
        let expected = self.probe(&debt, before, now).retry_after?;
        let is_at_its_rate = expected.minus(verdict.retry_after?) <= Span::from_micros(1)
            && verdict.retry_after?.minus(expected) <= Span::from_micros(1);
        is_at_its_rate.then(|| self.probe(&debt, cost, now))
    }

    /// Exact for a bucket whose counter has no other limit.
    fn wait_after_peek(&self, peeked: &Verdict, cost: Cost) -> Span {
        let (micros, _) = self.refill_time(peeked.limit.saturating_sub(cost.get()));
        let rest = Span::from_micros(narrow(micros));
        if rest < peeked.reset_after { peeked.reset_after.minus(rest) } else { peeked.reset_after }
    }

    /// It refills at its rate meanwhile.
    fn used_until(&self, used: u64, left: Span) -> u64 {
        let missing = div_ceil(product(left.as_micros(), self.rate), self.window.as_micros());
        used.min(narrow(missing))
    }
}
