//! Token bucket: bursts up to a size, then a steady rate, exactly.

use super::arithmetic::{div_ceil, div_rem, narrow, product};
use super::packed::{digits, instant, push_three, three};
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

/// When the bucket is full again, and how fast that goes.
///
/// The debt at `now` is `rate * (full_at - now) + rest`. The rate is that of the limit that took tokens
/// last, and is stored alongside: limits that share a counter (tiers, a changed limit) agree on the debt
/// in tokens, and reading it changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketDebt {
    full_at: Timestamp,
    rest: u64,
    pace: BucketPace,
}

impl BucketDebt {
    #[inline]
    fn at(&self, now: Timestamp) -> u128 {
        if now > self.full_at {
            return 0;
        }
        product(self.pace.rate(), self.full_at.since(now).as_micros()) + u128::from(self.rest)
    }

    /// A debt of this size at this pace.
    #[inline]
    fn of(debt: u128, pace: BucketPace, now: Timestamp) -> Self {
        let (micros, rest) = div_rem(debt, pace.rate());
        Self { full_at: now + Span::from_micros(narrow(micros)), rest, pace }
    }
}

/// A rate, and how many windows at most a bucket takes to refill at it: a power of eight.
///
/// The latter distinguishes a clock that went back from a limit with a smaller burst, which also sees
/// more debt than it could have made itself. There are eight classes, so that both fit into a number
/// below 2^53, which every store can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BucketPace(u64);

impl BucketPace {
    /// Rates are at most 10^15.
    const RATE_BITS: u32 = 50;
    /// The class of buckets that take longer than all others.
    const SLOWEST: u64 = 7;

    fn new(rate: u64, burst: u64) -> Self {
        let holds = |class: &u64| burst <= rate.saturating_mul(1 << (3 * class));
        let class = (0..Self::SLOWEST).find(holds).unwrap_or(Self::SLOWEST);
        Self(class << Self::RATE_BITS | rate)
    }

    #[inline]
    const fn rate(self) -> u64 {
        self.0 & ((1 << Self::RATE_BITS) - 1)
    }

    /// The longest that a bucket of this pace takes to refill.
    fn longest(self, window: Span) -> Span {
        match self.0 >> Self::RATE_BITS {
            class if class < Self::SLOWEST => {
                let micros = window.as_micros().saturating_mul(1 << (3 * class));
                Span::from_micros(micros).min(LONGEST_REFILL)
            }
            _ => LONGEST_REFILL,
        }
    }
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
        let burst = quota.burst().unwrap_or(quota.limit());
        let (rate, window) = (quota.limit(), quota.window());
        let (pace, but_one) = (BucketPace::new(rate, burst), RefillTime::default());
        let bucket = Self { rate, window, burst, pace, but_one };
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
        push_three(out, state.full_at, state.rest, state.pace.0);
    }

    /// One integer, or three numbers. A store may keep how it rounded the time to live in the first
    /// four bits, unless the state has its longest form.
    fn decode(&self, raw: &[u8]) -> Option<BucketDebt> {
        if let Some(state) = BucketDebt::from_digits(raw) {
            return Some(state);
        }
        let (full_at, rest, code) = three(raw)?;
        let micros = full_at.as_micros();
        Some(match raw.len() {
            11 => BucketDebt::short(micros & ROUNDLESS, rest, code, 13),
            15 => BucketDebt::short(micros & ROUNDLESS, rest, code, 29),
            _ => BucketDebt { full_at, rest, pace: BucketPace(code) },
        })
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

impl BucketDebt {
    /// A bucket as one integer: the microseconds from 2025 until it is full, and four digits for its
    /// pace.
    fn from_digits(raw: &[u8]) -> Option<Self> {
        let number = digits(raw).filter(|_| (16..20).contains(&raw.len()))?;
        let pace = match number % 10_000 % 1_250 {
            rate @ ..625 => rate,
            other => (((other - 625) / 89 + 1) << BucketPace::RATE_BITS) | ((other - 625) % 89),
        };
        let full_at = instant(SINCE + number / 10_000);
        Some(Self { full_at, rest: 0, pace: BucketPace(pace) })
    }

    /// A bucket in a short form, where the class is above fewer bits of rate.
    fn short(micros: u64, rest: u64, code: u64, rate_bits: u32) -> Self {
        let (class, rate) = (code >> rate_bits, code & ((1 << rate_bits) - 1));
        let pace = BucketPace(class << BucketPace::RATE_BITS | rate);
        Self { full_at: instant(micros), rest, pace }
    }
}

/// The beginning of 2025, in microseconds.
const SINCE: u64 = 1_735_689_600_000_000;
/// The bits of an instant of seven bytes without the first four.
const ROUNDLESS: u64 = (1 << 52) - 1;

/// The longest refill: every state must expire eventually, so no key is kept for longer than two of the
/// longest windows.
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
            let (limit, mut state, mut now) =
                (bucket(quota), BucketDebt::default(), Timestamp::ZERO);
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
        let mut state = BucketDebt::default();
        let _ = bucket("10/day").commit(&mut state, Cost::new(10).unwrap(), now);
        assert_eq!(bucket("100/day").probe(&state, Cost::ONE, now).remaining, 90);
    }

    #[test]
    fn a_denial_by_a_smaller_limit_gives_nothing_back() {
        let now = Timestamp::from_secs(100);
        let (large, small) = (bucket("100/hour"), bucket("1/hour"));
        let mut state = BucketDebt::default();
        let _ = large.commit(&mut state, Cost::new(80).unwrap(), now);
        let before = state;
        let verdict = small.probe(&state, Cost::ONE, now);
        // 80 tokens of the larger limit take 48 minutes.
        assert_eq!(verdict.retry_after, Some(Span::from_secs(48 * 60)));
        small.deny(&mut state, Cost::ONE, now);
        assert_eq!(state, before);
        assert_eq!(large.probe(&state, Cost::ONE, now).remaining, 20);
        // A refund removes as much debt, and the rest does not take longer.
        small.refund(&mut state, Cost::new(30).unwrap(), now);
        let verdict = large.probe(&state, Cost::ONE, now);
        assert_eq!((verdict.remaining, verdict.reset_after), (50, Span::from_secs(30 * 60)));
    }

    #[test]
    fn a_lowered_burst_waits_for_what_was_used_and_forgets_none_of_it() {
        let now = Timestamp::from_secs(100);
        let (large, small) = (bucket("1/second burst 1000"), bucket("1/second burst 5"));
        let mut state = BucketDebt::default();
        let _ = large.commit(&mut state, Cost::new(1000).unwrap(), now);
        let verdict = small.probe(&state, Cost::new(5).unwrap(), now);
        assert_eq!(verdict.retry_after, Some(Span::from_secs(1000)));
        small.deny(&mut state, Cost::new(5).unwrap(), now);
        assert_eq!(large.probe(&state, Cost::ONE, now).remaining, 0);
    }

    #[test]
    fn a_jittering_clock_adds_nothing_and_a_clock_set_back_recovers() {
        let (limit, now) = (bucket("10/second"), Timestamp::from_secs(1_000));
        let mut state = BucketDebt::default();
        let _ = limit.commit(&mut state, Cost::new(10).unwrap(), now);
        for _ in 0..40 {
            for at in [now.before(Span::from_millis(700)), now] {
                assert!(!limit.admits(&state, Cost::ONE, at));
                limit.deny(&mut state, Cost::ONE, at);
            }
        }
        let long_ago = Timestamp::from_secs(10);
        limit.deny(&mut state, Cost::ONE, long_ago);
        let verdict = limit.probe(&state, Cost::ONE, long_ago);
        assert_eq!(verdict.retry_after, Some(Span::from_millis(100)));
    }

    #[test]
    fn a_pace_bounds_the_time_of_a_refill() {
        for (quota, windows) in [
            ("100/hour", 1),
            ("100/hour burst 5", 1),
            ("100/hour burst 101", 8),
            ("1/hour burst 100", 512),
        ] {
            let limit = bucket(quota);
            assert!(limit.pace() < 1 << 53);
            assert_eq!(limit.pace.longest(limit.window), Span::from_secs(windows * 3_600));
            assert!(limit.period() <= limit.pace.longest(limit.window));
        }
        let slow = bucket("1/second burst 1000000");
        assert_eq!((slow.pace.rate(), slow.pace.longest(slow.window)), (1, LONGEST_REFILL));
    }

    #[test]
    fn a_bucket_that_would_never_refill_is_refused() {
        for text in ["0/second burst 5", "1/day burst 1000"] {
            let error = TokenBucket::from_quota(&text.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains("expected"), "{error}");
        }
        assert!(
            !bucket("0/second").probe(&BucketDebt::default(), Cost::PEEK, Timestamp::ZERO).allowed
        );
    }
}
