//! The runtime of `#[rate_limit]`: limits on functions, by an attribute.
//!
//! ```
//! use tidegate::{Denied, rate_limit};
//!
//! #[rate_limit(name = "mails", quota = "2/day", key = |to| to)]
//! async fn send_mail(to: &str, text: &str) -> Result<usize, Denied> {
//!     Ok(text.len())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! assert!(send_mail("alice", "hello").await.is_ok());
//! assert!(send_mail("alice", "hello").await.is_ok());
//! let denied = send_mail("alice", "hello").await.unwrap_err();
//! assert!(denied.retry_after().is_some());
//! assert!(send_mail("bob", "hello").await.is_ok());
//! # }
//! ```
//!
//! | argument | means |
//! |---|---|
//! | `name = "mails"` | identifies the counters. Functions that share a name and a window share their counters |
//! | `quota = "100/minute"` | also `["5/second", "100/minute"]`: all must pass. Read when the program is compiled |
//! | `algorithm = "sliding-log"` | as in a configuration file; by default the quota decides |
//! | `key = \|to\| to` | the key to count by: an expression over the function's arguments, which it sees by reference |
//! | `cost = 5`, `cost = \|text\| text.len()` | the units that a call takes: a number, or an expression over the function's arguments. One by default |
//! | `scope = global` | all callers together; the default |
//! | `scope = user`, `scope = ip` | the caller, as known to the [resolver](resolve_with) of this process. With a `key`: both together |
//! | `on_denied = error` | the call returns an error that is made [from](From) a [`Denied`]; the default |
//! | `on_denied = wait` | the call waits in a queue, as [`until_ready`](crate::Limiter::until_ready) does, and returns an error when that takes too long |
//! | `fail = local`, `open`, `closed` | what to do [if the store does not answer](crate::OnStoreError) |
//! | `limiter = &self.limiter` | a limiter other than this process's: any [`RateLimiter`]. It has its own quota, name and failure mode |
//!
//! The attribute can be repeated. Limits are checked from top to bottom, and if a later one denies, the
//! units of the earlier ones are given back.
//!
//! # Where the counters are
//!
//! In this process's memory, or in the store that was set with [`use_store`] before the first call:
//!
//! ```
//! use tidegate::{MemoryStore, attribute};
//!
//! // A RedisStore, if several instances share the limits.
//! attribute::use_store(MemoryStore::builder().max_keys(10_000).build())?;
//! # Ok::<(), attribute::LateSetupError>(())
//! ```
//!
//! # Functions that are not async
//!
//! They ask a store in memory without waiting. With a remote store the thread waits for its answer,
//! at most for the store's deadline, and then `fail` decides; with `on_denied = wait` it waits for its
//! turn. This works on any thread, with a runtime or without one, because a background thread drives
//! connections that only blocked threads use. But a thread that runs async tasks should not wait: its
//! other tasks wait too.

mod denied;
mod function_limit;
mod scope;
mod store;

pub use denied::{Denied, FromDenied};
pub use function_limit::FunctionLimit;
pub use scope::{FunctionCall, FunctionScope, resolve, resolve_with};
pub use store::{LateSetupError, reset, use_store};

use std::time::Duration;

use tidegate_core::{Cost, MAX_COUNT};
use tidegate_policy::Key;

use crate::{Decision, DecisionSource, RateLimiter, WaitError, blocking};

/// What a call costs, by `cost = ...`. A number that is not a cost fits no limit. Used by the code that the
/// attribute generates.
#[doc(hidden)]
pub fn cost_of(units: impl TryInto<u64>) -> Cost {
    let units = units.try_into().unwrap_or(u64::MAX);
    let most = || Cost::new(MAX_COUNT).map_or(Cost::ONE, |most| most.plus(Cost::ONE));
    Cost::new(units).unwrap_or_else(|_| most())
}

/// Checks a limiter given by `limiter = ...`. Used by the code that the attribute generates.
#[doc(hidden)]
pub async fn enter<L: RateLimiter, K: Key + Sync>(
    limiter: &L,
    name: &'static str,
    key: &Option<K>,
    cost: Cost,
) -> Result<(), Denied> {
    let Some(key) = key else { return Ok(()) };
    Denied::unless_allowed(name, limiter.decide(key, cost).await)
}

/// [`enter`] in a function that is not async.
#[doc(hidden)]
pub fn enter_now<L: RateLimiter, K: Key + Sync>(
    limiter: &L,
    name: &'static str,
    key: &Option<K>,
    cost: Cost,
) -> Result<(), Denied> {
    let Some(key) = key else { return Ok(()) };
    let decision = limiter
        .try_decide(key, cost)
        .or_else(|| blocking::wait(limiter.decide(key, cost)))
        .unwrap_or_else(|| Decision::without_verdicts(false, DecisionSource::Fallback));
    Denied::unless_allowed(name, decision)
}

/// Gives back what [`enter`] took. Used by the code that the attribute generates.
#[doc(hidden)]
pub async fn leave<L: RateLimiter, K: Key + Sync>(limiter: &L, key: &Option<K>, cost: Cost) {
    if let Some(key) = key {
        limiter.give_back(key, cost).await;
    }
}

/// [`leave`] in a function that is not async.
#[doc(hidden)]
pub fn leave_now<L: RateLimiter, K: Key + Sync>(limiter: &L, key: &Option<K>, cost: Cost) {
    let _ = blocking::wait(leave(limiter, key, cost));
}

/// Waits in the queue of a limiter given by `limiter = ...`. Used by the code that the attribute
/// generates.
#[doc(hidden)]
pub async fn queue<S: crate::Store, K: Key + Sync>(
    limiter: &crate::Limiter<S>,
    name: &'static str,
    key: &Option<K>,
    cost: Cost,
) -> Result<(), Denied> {
    let Some(key) = key else { return Ok(()) };
    limiter.until_ready_n(key, cost).await.map_err(|not_ready| Denied::not_ready(name, not_ready))
}

/// [`queue`] in a function that is not async.
#[doc(hidden)]
pub fn queue_now<S: crate::Store, K: Key + Sync>(
    limiter: &crate::Limiter<S>,
    name: &'static str,
    key: &Option<K>,
    cost: Cost,
) -> Result<(), Denied> {
    blocking::wait(queue(limiter, name, key, cost))
        .unwrap_or_else(|| Err(Denied::not_ready(name, WaitError::TooLong(Duration::ZERO))))
}
