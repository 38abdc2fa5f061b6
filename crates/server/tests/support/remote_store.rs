//! A remote store, which answers when it is allowed to.

use std::pin::Pin;

use tidegate::{
    Charge, LocalStore, MemoryStore, Promise, SettleResult, Span, Store, StoreError, StoreProfile,
    Verdicts,
};

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
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        _: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(async move {
            (self.wait)().await;
            Ok(self.inner.settle_now(charges, out))
        })
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.inner.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.inner.reset(charge).await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile::remote([7; 16])
    }
}
