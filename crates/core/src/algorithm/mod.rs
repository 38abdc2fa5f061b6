//! The algorithms: one file each, and one line each to register them.

mod arithmetic;
mod timeline;

use crate::{Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// The registry of algorithms. A line here brings in the algorithm's file, and gives it a variant
/// of [`Limit`](crate::Limit) and [`AlgorithmKind`](crate::AlgorithmKind), a table in the embedded
/// store, and a place in every law, vector and benchmark.
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

    /// Checks everything that could go wrong later.
    fn from_quota(quota: &Quota) -> Result<Self, QuotaError>;

    /// The quota this was made from.
    fn quota(&self) -> Quota;

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

    /// Bytes that the state holds on the heap.
    fn heap_bytes(_state: &Self::State) -> usize {
        0
    }

    /// Trades precision for memory, on the strict side: it can deny more, but never admits more.
    fn coarsen(&self, _state: &mut Self::State) {}
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
    match quota.burst() {
        None => Ok(()),
        Some(_) => Err(QuotaError::new(
            quota,
            format!("{name} has no burst; use token-bucket, or leave the burst out"),
        )),
    }
}
