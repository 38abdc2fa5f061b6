//! The trait [`Store`] in a form that can be behind a pointer: with boxed futures.

use std::future::Future;
use std::pin::Pin;

use tidegate_core::{Charge, Rule, Span, Verdict};
use tidegate_store::{Store, StoreError, StoreUsage, Verdicts};

/// The answer of a store.
pub(super) type StoreFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A dyn-compatible [`Store`].
pub(super) trait ErasedStore: Send + Sync {
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
    fn settle_each<'c>(
        &self,
        charges: &mut dyn Iterator<Item = Charge<'c>>,
        report: &mut dyn FnMut(&Charge<'c>, &Verdict),
    ) -> bool;
    fn refund<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()>;
    fn reset<'a>(&'a self, charge: &'a Charge<'a>) -> StoreFuture<'a, ()>;
    fn shared_secret(&self) -> Option<[u8; 16]>;
    fn names_keys(&self) -> bool;
    fn set_deadline(&self, longest: Span);
    fn is_available(&self) -> bool;
    fn round_trip(&self) -> Option<Span>;
    fn usage(&self) -> StoreFuture<'_, StoreUsage>;
    fn overflowed_of(&self, rule: &Rule) -> Option<u64>;
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

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Store::shared_secret(self)
    }

    fn names_keys(&self) -> bool {
        Store::names_keys(self)
    }

    fn set_deadline(&self, longest: Span) {
        Store::set_deadline(self, longest);
    }

    fn is_available(&self) -> bool {
        Store::is_available(self)
    }

    fn round_trip(&self) -> Option<Span> {
        Store::round_trip(self)
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(Store::usage(self))
    }

    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        Store::overflowed_of(self, rule)
    }
}
