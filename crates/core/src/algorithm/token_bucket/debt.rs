//! The state of a token bucket, and how a store keeps it.

use crate::algorithm::arithmetic::{div_rem, narrow, product};
use crate::algorithm::packed::{digits, instant, push_three, three};
use crate::{Span, Timestamp};

/// When the bucket is full again, and how fast that goes.
///
/// The debt at `now` is `rate * (full_at - now) + rest`. The rate is that of the limit that took tokens
/// last, and is stored alongside: limits that share a counter (tiers, a changed limit) agree on the debt
/// in tokens, and reading it changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketDebt {
    pub(super) full_at: Timestamp,
    pub(super) rest: u64,
    pub(super) pace: BucketPace,
}

impl BucketDebt {
    #[inline]
    pub(super) fn at(&self, now: Timestamp) -> u128 {
        if now > self.full_at {
            return 0;
        }
        product(self.pace.rate(), self.full_at.since(now).as_micros()) + u128::from(self.rest)
    }

    /// A debt of this size at this pace.
    #[inline]
    pub(super) fn of(debt: u128, pace: BucketPace, now: Timestamp) -> Self {
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
pub(super) struct BucketPace(pub(super) u64);

impl BucketPace {
    /// Rates are at most 10^15.
    const RATE_BITS: u32 = 50;
    /// The class of buckets that take longer than all others.
    const SLOWEST: u64 = 7;

    pub(super) fn new(rate: u64, burst: u64) -> Self {
        let holds = |class: &u64| burst <= rate.saturating_mul(1 << (3 * class));
        let class = (0..Self::SLOWEST).find(holds).unwrap_or(Self::SLOWEST);
        Self(class << Self::RATE_BITS | rate)
    }

    #[inline]
    pub(super) const fn rate(self) -> u64 {
        self.0 & ((1 << Self::RATE_BITS) - 1)
    }

    /// The longest that a bucket of this pace takes to refill.
    pub(super) fn longest(self, window: Span) -> Span {
        match self.0 >> Self::RATE_BITS {
            class if class < Self::SLOWEST => {
                let micros = window.as_micros().saturating_mul(1 << (3 * class));
                Span::from_micros(micros).min(LONGEST_REFILL)
            }
            _ => LONGEST_REFILL,
        }
    }
}

impl BucketDebt {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        push_three(out, self.full_at, self.rest, self.pace.0);
    }

    /// One integer, or three numbers. A store may keep how it rounded the time to live in the first
    /// four bits, unless the state has its longest form.
    pub(super) fn decode(raw: &[u8]) -> Option<Self> {
        if let Some(state) = Self::from_digits(raw) {
            return Some(state);
        }
        let (full_at, rest, code) = three(raw)?;
        let micros = full_at.as_micros();
        Some(match raw.len() {
            11 => Self::short(micros & ROUNDLESS, rest, code, 13),
            15 => Self::short(micros & ROUNDLESS, rest, code, 29),
            _ => Self { full_at, rest, pace: BucketPace(code) },
        })
    }

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
pub(super) const LONGEST_REFILL: Span = Span::from_days(800);
