//! The store that all functions with `#[rate_limit]` share in this process.
//!
//! The store is chosen once for the whole process, before the first limited function runs: a limiter that
//! moved to another store would lose its counts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tidegate_core::{Charge, Span};
use tidegate_store::{MemoryStore, Store, StoreError, Verdicts};

use super::blocking::BackgroundFuture;

/// Keeps the counters of all functions with `#[rate_limit]` in `store`. Call it once, before the first
/// call of a limited function.
pub fn use_store<S: Store + 'static>(store: S) -> Result<(), LateSetupError> {
    STORE.set(Arc::new(AnyStore::new(store))).map_err(|_| LateSetupError)
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

pub(super) fn of_this_process() -> Arc<AnyStore> {
    Arc::clone(STORE.get_or_init(|| Arc::new(AnyStore::new(MemoryStore::new()))))
}

static STORE: OnceLock<Arc<AnyStore>> = OnceLock::new();

/// A store whose type is chosen at run time.
pub(crate) struct AnyStore {
    store: Box<dyn ErasedStore>,
    /// Whether the store has connections. They belong to the background runtime, which lives as long as
    /// the process, like the limits on functions.
    is_remote: bool,
}

impl AnyStore {
    fn new<S: Store + 'static>(store: S) -> Self {
        let is_remote = Store::shared_secret(&store).is_some();
        Self { store: Box::new(store), is_remote }
    }

    async fn answer<T>(&self, answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
        if self.is_remote { BackgroundFuture(answer).await } else { answer.await }
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyStore")
    }
}

impl Store for AnyStore {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        self.answer(self.store.settle(charges, out)).await
    }

    async fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        deadline: Span,
    ) -> Result<bool, StoreError> {
        self.answer(self.store.settle_within(charges, out, deadline)).await
    }

    fn is_stepwise(&self) -> bool {
        self.store.is_stepwise()
    }

    fn try_settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        self.store.try_settle(charges, out)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answer(self.store.refund(charge)).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answer(self.store.reset(charge)).await
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        self.store.shared_secret()
    }

    fn names_keys(&self) -> bool {
        self.store.names_keys()
    }
}

type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A dyn-compatible [`Store`] with boxed futures.
trait ErasedStore: Send + Sync {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        out: &'a mut Verdicts,
    ) -> StoreFuture<'a, bool>;
    fn settle_within<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        out: &'a mut Verdicts,
        deadline: Span,
    ) -> StoreFuture<'a, bool>;
    fn is_stepwise(&self) -> bool;
    fn try_settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool>;
    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()>;
    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()>;
    fn shared_secret(&self) -> Option<[u8; 16]>;
    fn names_keys(&self) -> bool;
}

impl<S: Store> ErasedStore for S {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        out: &'a mut Verdicts,
    ) -> StoreFuture<'a, bool> {
        Box::pin(Store::settle(self, charges, out))
    }

    fn settle_within<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        out: &'a mut Verdicts,
        deadline: Span,
    ) -> StoreFuture<'a, bool> {
        Box::pin(Store::settle_within(self, charges, out, deadline))
    }

    fn is_stepwise(&self) -> bool {
        Store::is_stepwise(self)
    }

    fn try_settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        Store::try_settle(self, charges, out)
    }

    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()> {
        Box::pin(Store::refund(self, charge))
    }

    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()> {
        Box::pin(Store::reset(self, charge))
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Store::shared_secret(self)
    }

    fn names_keys(&self) -> bool {
        Store::names_keys(self)
    }
}
