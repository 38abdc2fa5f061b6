//! A remote store, which answers when it is allowed to.

use std::pin::Pin;

use tidegate::{Charge, LocalStore, MemoryStore, Store, StoreError, Verdicts};

pub(crate) struct Elsewhere {
    inner: MemoryStore,
    wait: Box<dyn Fn() -> Waiting + Send + Sync>,
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Elsewhere {
    /// Each decision waits for this first.
    pub(crate) fn new<F>(wait: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { inner: MemoryStore::new(), wait: Box::new(move || Box::pin(wait())) }
    }
}

impl Store for Elsewhere {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        (self.wait)().await;
        Ok(self.inner.settle_now(charges, out))
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.inner.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.inner.reset(charge).await
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Some([7; 16])
    }
}
