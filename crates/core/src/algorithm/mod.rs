//! The algorithms: one file each, and one line each to register them.

mod arithmetic;
mod packed;
mod timeline;

use crate::{CalendarPeriod, Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// The registry of algorithms. A line here brings in the algorithm's file, and gives it a variant
/// of [`Limit`](crate::Limit) and [`AlgorithmKind`](crate::AlgorithmKind), a name in files and in
/// their schema, a table in the embedded store, keys in Redis, and a place in every law, vector and
/// benchmark.
///
/// Calls `$callback!` with a list of `Type file "name"`: the type in
/// [`algorithm`](crate::algorithm), the file it is in (and the name of a field for it), and its
/// name in configuration.
#[macro_export]
macro_rules! for_each_algorithm {
    ($callback:ident) => {
        $callback! {
            FixedWindow fixed_window "fixed-window",
            SlidingWindow sliding_window "sliding-window",
            SlidingLog sliding_log "sliding-log",
            TokenBucket token_bucket "token-bucket",
            SteppedWindow stepped_window "stepped-window",
        }
    };
}

macro_rules! modules {
    ($($Name:ident $file:ident $name:literal,)*) => {
        $(mod $file; pub use $file::$Name;)*
    };
}

for_each_algorithm!(modules);

/// A rate limiting algorithm: a pure function of state, cost and time.
///
/// Implementations hold parameters only. They read no clock, keep no key and cannot fail: anything
/// that could overflow is refused by [`from_quota`](Algorithm::from_quota). Every implementation
/// must satisfy the laws that the conformance crate tests.
///
/// Every state is valid for every `now`, and for every quota of the same window: limits may share a
/// counter. A state from the future (because the clock went back) admits nothing extra, and denies for
/// at most two of the longest periods that its algorithm could have had.
pub trait Algorithm: Sized {
    /// What is remembered about a key. The default is a new key. Small and fixed-size, except for the
    /// log.
    type State: Clone + Default + std::fmt::Debug + PartialEq;

    /// A letter that no other algorithm has, for the names of keys in a shared store. It also stands
    /// for the form of the state: another form needs another letter.
    const LETTER: u8;

    /// What it does, in one line, for editors and for help.
    const SUMMARY: &'static str;

    /// Whether a quota may have a burst.
    const TAKES_BURST: bool = false;

    /// Whether it estimates the count, so that a small limit can deny callers that keep to the rate.
    const ESTIMATES: bool = false;

    /// Whether [`at_another_cost`](Algorithm::at_another_cost) ever knows the answer.
    const KNOWS_OTHER_COSTS: bool = false;

    /// Checks everything that could go wrong later.
    fn from_quota(quota: &Quota) -> Result<Self, QuotaError>;

    /// The quota this was made from.
    fn quota(&self) -> Quota;

    /// The same options with another quota. A calendar keeps its own window.
    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError> {
        Self::from_quota(quota)
    }

    /// The calendar whose windows it follows, if any.
    fn calendar(&self) -> Option<CalendarPeriod> {
        None
    }

    /// The most that passes in any span of time.
    fn bound(&self) -> AdmissionBound;

    /// The most that passes in any window, as a whole number: the [bound](Algorithm::bound) of a
    /// window.
    fn most_in_a_window(&self) -> u64 {
        self.quota().limit()
    }

    /// What else people should know about this limit, as a part of a sentence.
    fn remark(&self) -> Option<String> {
        None
    }

    /// What a full quota holds: no cost above it can ever pass.
    fn capacity(&self) -> u64 {
        self.quota().limit()
    }

    /// After being idle for this long, any state is as good as a fresh one.
    fn period(&self) -> Span;

    /// The rule itself: does `cost` fit now? Agrees with [`probe`](Algorithm::probe), without the
    /// numbers that explain the answer.
    fn admits(&self, state: &Self::State, cost: Cost, now: Timestamp) -> bool;

    /// Would `cost` pass now, and what would follow? Read-only, so this is also how to peek.
    fn probe(&self, state: &Self::State, cost: Cost, now: Timestamp) -> Verdict;

    /// Takes `cost`, which was admitted at the same `now`, and reports what is left.
    fn commit(&self, state: &mut Self::State, cost: Cost, now: Timestamp) -> Verdict;

    /// Whether denied requests count too.
    fn counts_denied(&self) -> bool {
        false
    }

    /// Records a denial, by this limit or another one. It must not change any later decision, by this
    /// limit or by another one that shares the counter, with two exceptions: a state from the far
    /// future is pulled back, and an algorithm can be configured to count denials.
    fn deny(&self, state: &mut Self::State, cost: Cost, now: Timestamp);

    /// Gives `amount` back. Never lifts the state above full, and never makes a later request fail.
    fn refund(&self, state: &mut Self::State, amount: Cost, now: Timestamp);

    /// From this time on, a fresh state would decide the same way. Depends on the state alone, so
    /// that a store can drop dead entries without knowing whose they were.
    fn forget_at(state: &Self::State) -> Timestamp;

    /// Appends the state as bytes, which [`decode`](Algorithm::decode) reads, under this limit or
    /// another one that shares the counter.
    fn encode(state: &Self::State, out: &mut Vec<u8>);

    /// The state in these bytes; `None` if they are not a state of this algorithm.
    fn decode(&self, raw: &[u8]) -> Option<Self::State>;

    /// The state in a number, if a store may keep it as one.
    fn decode_number(&self, _number: u64) -> Option<Self::State> {
        None
    }

    /// The verdict for `cost` at the same instant, if it follows from `verdict`, a denial of
    /// `before`. It may wait a microsecond too long, but never too little.
    fn at_another_cost(&self, _verdict: Verdict, _before: Cost, _cost: Cost) -> Option<Verdict> {
        None
    }

    /// How long a cost that exceeds what remains has to wait, by the verdict of a peek: exact, or
    /// until the whole quota is back.
    fn wait_after_peek(&self, peeked: &Verdict, _cost: Cost) -> Span {
        peeked.reset_after
    }

    /// How many of `used` units still count when the quota is full again after `left`. All of them,
    /// if it is not known when each of them leaves.
    fn used_until(&self, used: u64, left: Span) -> u64 {
        if left.is_zero() { 0 } else { used }
    }

    /// The time that the remaining units are for.
    fn effective_window(&self, verdict: &Verdict) -> Span {
        verdict.reset_after
    }

    /// Bytes that the state holds on the heap.
    fn heap_bytes(_state: &Self::State) -> usize {
        0
    }

    /// Trades precision for memory, on the strict side: it can deny more, but never admits more.
    fn coarsen(&self, _state: &mut Self::State) {}
}

/// The most that passes in any span `d`: `at_once + per_window * d / window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionBound {
    /// What can pass at one instant.
    pub at_once: u64,
    /// What can pass in addition during one window.
    pub per_window: u64,
    /// The longest span for which this holds; `None` if for every span.
    pub longest: Option<Span>,
}

/// Assembles the verdict of every algorithm. `wait` is called only for a denial that passes with time.
#[inline(always)]
fn judge(
    capacity: u64,
    remaining: u64,
    cost: Cost,
    reset_after: Span,
    wait: impl FnOnce() -> Span,
) -> Verdict {
    // A limit of zero denies even a peek: there is nothing to look at.
    let allowed = cost.get() <= remaining && capacity > 0;
    let hopeless = cost.get() > capacity || capacity == 0;
    let retry_after = if allowed || hopeless { None } else { Some(wait()) };
    Verdict { allowed, limit: capacity, remaining, retry_after, reset_after }
}

/// Refuses a burst where it would be silently ignored.
fn refuse_burst(quota: &Quota, name: &str) -> Result<(), QuotaError> {
    match quota.burst_size() {
        None => Ok(()),
        Some(_) => Err(QuotaError::new(
            quota,
            format!("{name} has no burst; use token-bucket, or leave the burst out"),
        )),
    }
}
