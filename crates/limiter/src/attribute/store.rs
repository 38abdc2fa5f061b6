//! The store that all functions with `#[rate_limit]` share in this process.
//!
//! The store is chosen once for the whole process, before the first limited function runs: a limiter that
//! moved to another store would lose its counts.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tidegate_core::{Charge, Rule, Span, Verdict};
use tidegate_store::{
    MemoryStore, Promise, SettleResult, Store, StoreError, StoreHealth, StoreProfile, StoreUsage,
    Verdicts,
};

use crate::AnyStore;
use crate::blocking::BackgroundFuture;

/// Keeps the counters of all functions with `#[rate_limit]` in `store`. Call it once, before the first
/// call of a limited function.
pub fn use_store<S: Store + 'static>(store: S) -> Result<(), LateSetupError> {
    STORE.set(Arc::new(FunctionStore::new(store))).map_err(|_| LateSetupError)
}

/// Forgets everything that functions with `#[rate_limit]` have counted in this process's memory, for tests:
/// functions share their counters with all tests of a process.
///
/// A store that was set with [`use_store`] keeps its counters, because others may use them too: make a new one
/// for each test, or [reset](crate::Limiter::reset) its keys.
///
/// ```
/// use tidegate::{Denied, attribute, rate_limit};
///
/// #[rate_limit(name = "exports", quota = "1/day")]
/// fn export() -> Result<(), Denied> {
///     Ok(())
/// }
///
/// assert!(export().is_ok() && export().is_err());
/// attribute::reset();
/// assert!(export().is_ok());
/// ```
pub fn reset() {
    if let Some(store) = STORE.get() {
        store.reset_memory();
    }
}

/// The store or the resolver was set too late: a limited function has been called, or it was set before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateSetupError;

impl fmt::Display for LateSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("set twice, or after the first call of a limited function")
    }
}

impl std::error::Error for LateSetupError {}

pub(super) fn of_this_process() -> Arc<FunctionStore> {
    Arc::clone(STORE.get_or_init(|| Arc::new(FunctionStore::in_memory())))
}

static STORE: OnceLock<Arc<FunctionStore>> = OnceLock::new();

/// The store of all limited functions.
#[derive(Debug)]
pub(super) struct FunctionStore {
    /// Replaced only by [`reset`], which tests call.
    store: RwLock<AnyStore>,
    /// Whether the store has connections. They belong to the background runtime, which lives as long as
    /// the process, like the limits on functions.
    is_remote: bool,
    /// Whether nobody else uses it.
    is_own: bool,
}

impl FunctionStore {
    fn new<S: Store + 'static>(store: S) -> Self {
        let is_remote = store.profile().is_remote();
        Self { store: RwLock::new(AnyStore::new(store)), is_remote, is_own: false }
    }

    fn in_memory() -> Self {
        Self { is_own: true, ..Self::new(MemoryStore::new()) }
    }

    fn reset_memory(&self) {
        if self.is_own {
            *self.store.write() = AnyStore::new(MemoryStore::new());
        }
    }

    fn current(&self) -> AnyStore {
        self.store.read().clone()
    }

    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if self.is_remote { BackgroundFuture(Box::pin(answer)).await } else { answer.await }
    }
}

impl Store for FunctionStore {
    fn profile(&self) -> StoreProfile {
        self.store.read().profile()
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        if let Some(answer) = self.store.read().settle(charges, deadline, out).ready() {
            return Promise::Ready(answer);
        }
        Promise::Later(async move {
            let store = self.current();
            self.answer(store.settle(charges, deadline, out).into_future()).await
        })
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        self.store.read().settle_each(charges, report)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answer(self.current().refund(charge)).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answer(self.current().reset(charge)).await
    }

    fn set_deadline(&self, longest: Span) {
        self.store.read().set_deadline(longest);
    }

    fn health(&self) -> StoreHealth {
        self.store.read().health()
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        self.answer(self.current().usage()).await
    }

    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        self.store.read().overflowed_of(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_functions_does_all_that_the_store_does() {
        tidegate_conformance::check_forwarding(FunctionStore::new);
    }
}
