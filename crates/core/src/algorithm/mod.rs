//! The algorithms: each one a file, each one registered by one line.

mod arithmetic;
mod timeline;

use crate::{Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// The register of algorithms. A line here brings in the algorithm's file, and gives it a variant
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
/// Implementations hold parameters only. They read no clock, keep no key and cannot fail: what
/// could overflow is refused by [`from_quota`](Algorithm::from_quota). The laws that every
/// implementation owes are the laws of the conformance crate, which tests them.
///
/// Every state is valid for every `now`. A state from the future (the clock went back) is read as
/// if it had been written now: nothing is gained, and nobody is denied for longer than one
/// [`period`](Algorithm::period).
pub trait Algorithm: Sized {
    /// What is remembered of a key. The default is a key never seen. Small and fixed-size, but
    /// for the log.
    type State: Clone + Default + std::fmt::Debug + PartialEq;

    /// Checks everything that could go wrong later.
    fn from_quota(quota: &Quota) -> Result<Self, QuotaError>;

    /// The quota this was made from.
    fn quota(&self) -> Quota;

    /// What a full quota holds: no cost above it can ever pass.
    fn capacity(&self) -> u64 {
        self.quota().limit()
    }

    /// Idle for this long, any state is as good as a fresh one.
    fn period(&self) -> Span;

    /// The rule itself: does `cost` fit now? Says what [`probe`](Algorithm::probe) says, without
    /// the numbers that explain it.
    fn admits(&self, state: &Self::State, cost: Cost, now: Timestamp) -> bool;

    /// Would `cost` pass now, and what then? Reads only: this is also "peek".
    fn probe(&self, state: &Self::State, cost: Cost, now: Timestamp) -> Verdict;

    /// Takes `cost`, which was admitted at the same `now`, and says what is left.
    fn commit(&self, state: &mut Self::State, cost: Cost, now: Timestamp) -> Verdict;

    /// What a denial, by this limit or another one, leaves behind: nothing that changes a later
    /// decision. There are two exceptions: a state from the future is pulled back to `now`, and
    /// an algorithm may have been asked to count denials.
    fn deny(&self, state: &mut Self::State, cost: Cost, now: Timestamp);

    /// Gives `amount` back. Never lifts above full, never makes a later request fail.
    fn refund(&self, state: &mut Self::State, amount: Cost, now: Timestamp);

    /// From then on a fresh state decides alike. A property of the state alone, so that a store
    /// can drop what is dead without knowing whose it was.
    fn forget_at(state: &Self::State) -> Timestamp;

    /// Bytes the state holds outside itself.
    fn heap_bytes(_state: &Self::State) -> usize {
        0
    }

    /// Gives up precision for memory, on the strict side: may deny more, never admits more.
    fn coarsen(&self, _state: &mut Self::State) {}
}

/// Assembles the verdict that every algorithm ends with. `wait` is called only for a denial
/// that time can heal.
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
