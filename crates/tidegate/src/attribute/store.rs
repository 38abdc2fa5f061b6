//! The store of this process.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tidegate_core::Charge;
use tidegate_store::{MemoryStore, Store, StoreError, Verdicts};

/// Keeps the counters of all functions with `#[rate_limit]` in `store`. Once, before the first call
/// of any of them.
pub fn use_store<S: Store + 'static>(store: S) -> Result<(), AlreadyInUse> {
    STORE.set(Arc::new(AnyStore(Box::new(store)))).map_err(|_| AlreadyInUse)
}

/// Too late: a limited function has been called, or somebody else came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limited functions have been called already, or this was said before")]
pub struct AlreadyInUse;

pub(super) fn of_this_process() -> Arc<AnyStore> {
    Arc::clone(STORE.get_or_init(|| Arc::new(AnyStore(Box::new(MemoryStore::new())))))
}

static STORE: OnceLock<Arc<AnyStore>> = OnceLock::new();

/// A store whose type is chosen at run time.
pub(crate) struct AnyStore(Box<dyn ErasedStore>);

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyStore")
    }
}

impl Store for AnyStore {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        self.0.settle(charges, out).await
    }

    fn settle_at_once(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        self.0.settle_at_once(charges, out)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.reset(charge).await
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        self.0.shared_secret()
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// [`Store`], with futures that have a size.
trait ErasedStore: Send + Sync {
    fn settle<'a>(&'a self, charges: &'a [Charge<'a>], out: &'a mut Verdicts) -> Answer<'a, bool>;
    fn settle_at_once(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool>;
    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> Answer<'a, ()>;
    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> Answer<'a, ()>;
    fn shared_secret(&self) -> Option<[u8; 16]>;
}

impl<S: Store> ErasedStore for S {
    fn settle<'a>(&'a self, charges: &'a [Charge<'a>], out: &'a mut Verdicts) -> Answer<'a, bool> {
        Box::pin(Store::settle(self, charges, out))
    }

    fn settle_at_once(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        Store::settle_at_once(self, charges, out)
    }

    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> Answer<'a, ()> {
        Box::pin(Store::refund(self, charge))
    }

    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> Answer<'a, ()> {
        Box::pin(Store::reset(self, charge))
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Store::shared_secret(self)
    }
}
