//! The trait [`Store`] in a form that can be behind a pointer: with boxed futures.

use std::future::Future;
use std::pin::Pin;

use tidegate_core::{Charge, Rule, Span, Verdict};
use tidegate_store::{
    Promise, SettleResult, Store, StoreError, StoreHealth, StoreProfile, StoreUsage, Verdicts,
};

/// The answer of a store.
pub(super) type StoreFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A dyn-compatible [`Store`]: a future is boxed, and an answer that is there needs none.
pub(super) trait ErasedStore: Send + Sync {
    fn profile(&self) -> StoreProfile;
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, StoreFuture<'a, bool>>;
    fn settle_each<'c>(
        &self,
        charges: &mut dyn Iterator<Item = Charge<'c>>,
        report: &mut dyn FnMut(&Charge<'c>, &Verdict),
    ) -> bool;
    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()>;
    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()>;
    fn set_deadline(&self, longest: Span);
    fn health(&self) -> StoreHealth;
    fn usage(&self) -> StoreFuture<'_, StoreUsage>;
    fn overflowed_of(&self, rule: &Rule) -> Option<u64>;
}

impl<S: Store> ErasedStore for S {
    fn profile(&self) -> StoreProfile {
        Store::profile(self)
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, StoreFuture<'a, bool>> {
        match Store::settle(self, charges, deadline, out) {
            Promise::Ready(answer) => Promise::Ready(answer),
            Promise::Later(answer) => Promise::Later(Box::pin(answer)),
        }
    }

    fn settle_each<'c>(
        &self,
        charges: &mut dyn Iterator<Item = Charge<'c>>,
        report: &mut dyn FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        Store::settle_each(self, charges, report)
    }

    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()> {
        Box::pin(Store::refund(self, charge))
    }

    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()> {
        Box::pin(Store::reset(self, charge))
    }

    fn set_deadline(&self, longest: Span) {
        Store::set_deadline(self, longest);
    }

    fn health(&self) -> StoreHealth {
        Store::health(self)
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(Store::usage(self))
    }

    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        Store::overflowed_of(self, rule)
    }
}
