//! What a store must do.

use std::future::Future;

use smallvec::SmallVec;
use tidegate_core::{Charge, Rule, Span, Verdict};

use crate::StoreError;

/// The verdicts of one settlement, in the order of its charges. No allocation for one or two, which
/// is what most policies have.
pub type Verdicts = SmallVec<[Verdict; 2]>;

/// Keeps counters and tells the time.
///
/// The contract, which `conformance::suite!` checks:
///
/// - **Atomic.** No settlement sees another half done: with a frozen clock, exactly as many callers
///   pass as the limit allows. Either all charges of a settlement pay, or none does.
/// - **Exact.** Verdicts match those of `tidegate_core`, to the last unit and microsecond.
/// - **One clock.** The store's own, read once per settlement.
/// - **Forgetful.** Every counter is dropped some time after it stops mattering, and never before.
///
/// An error means that the store could not decide; it must not be returned when the charges may
/// have been paid, unless it [says so](StoreError::may_have_settled).
pub trait Store: Send + Sync {
    /// Decides one request: returns whether every enforced charge passes, and appends a verdict for
    /// each charge to `out`. Charges that cost nothing are peeks, and change nothing.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// [`settle`](Store::settle) for a caller who waits no longer than `patience`, however long the
    /// store would. Stores that have to wait must give up by then, with an error of kind
    /// [`Timeout`](crate::StoreErrorKind::Timeout), and treat it as any other missed deadline.
    fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Span,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = patience;
        self.settle(charges, out)
    }

    /// Whether several counters may be asked one after the other. What was taken from the first is
    /// then given back if a later one denies, and in between it looks used.
    fn is_stepwise(&self) -> bool {
        false
    }

    /// [`settle`](Store::settle) for a caller that cannot wait. `None` if the answer would take a
    /// while: then nothing was done, and the caller should use `settle`.
    fn try_settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        let _ = (charges, out);
        None
    }

    /// Settles each charge by itself, in this order, for a caller that has many and cannot wait: `tell`
    /// hears each verdict. They are taken in groups, of which the store can fetch whatever is slow to
    /// reach while the caller makes the others; a group is settled at the same time, unless somebody
    /// else was later. Returns whether it was done; if not, no charge was taken.
    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        tell: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        let _ = (charges, tell);
        false
    }

    /// Gives a charge's cost back.
    fn refund(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets a charge's counter, as if the key had never been seen.
    fn reset(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The secret under which keys become fingerprints, if other processes must find the same
    /// counters. `None` if nobody else ever sees them: then each process has its own.
    fn shared_secret(&self) -> Option<[u8; 16]> {
        None
    }

    /// Whether it calls keys by the names of callers and limits, so that [charges](Charge::named) should
    /// have them.
    fn names_keys(&self) -> bool {
        false
    }

    /// Sets how long anything may take from now on, for stores that have to wait.
    fn set_deadline(&self, longest: Span) {
        let _ = longest;
    }

    /// Whether the store is currently being asked. It is not while it does not answer.
    fn is_available(&self) -> bool {
        true
    }

    /// How long it usually takes to be asked and to answer, for stores at the other end of a wire that
    /// have answered.
    fn round_trip(&self) -> Option<Span> {
        None
    }

    /// What it holds, as far as that can be known, for operators and metrics.
    fn usage(&self) -> impl Future<Output = Result<StoreUsage, StoreError>> + Send {
        async { Ok(StoreUsage::default()) }
    }

    /// Of [`StoreUsage::overflowed`], what this rule's keys had part in, if that is known.
    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        let _ = rule;
        None
    }
}

/// What a store holds, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Keys, including dead ones that have not been swept out.
    pub keys: Option<u64>,
    /// How many keys it may hold.
    pub max_keys: Option<u64>,
    /// Charges of new keys that had to share a counter because there was no room for them.
    pub overflowed: Option<u64>,
    /// The memory of its counters in bytes, or of the whole process that it is.
    pub bytes: Option<u64>,
    /// What that memory may grow to.
    pub max_bytes: Option<u64>,
    /// Whether it drops live counters when that is used up, which gives their callers a fresh quota.
    pub may_evict: Option<bool>,
}

/// A store in this process: it answers at once and cannot fail.
pub trait LocalStore: Store {
    /// [`Store::settle`], immediately.
    fn settle_now(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool;

    /// [`Store::refund`], immediately.
    fn refund_now(&self, charge: &Charge<'_>);

    /// [`Store::reset`], immediately.
    fn reset_now(&self, charge: &Charge<'_>);
}

/// A shared store is a store.
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        (**self).settle(charges, out).await
    }

    async fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Span,
    ) -> Result<bool, StoreError> {
        (**self).settle_within(charges, out, patience).await
    }

    fn is_stepwise(&self) -> bool {
        (**self).is_stepwise()
    }

    fn try_settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        (**self).try_settle(charges, out)
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        tell: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        (**self).settle_each(charges, tell)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        (**self).refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        (**self).reset(charge).await
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        (**self).shared_secret()
    }

    fn names_keys(&self) -> bool {
        (**self).names_keys()
    }

    fn set_deadline(&self, longest: Span) {
        (**self).set_deadline(longest);
    }

    fn is_available(&self) -> bool {
        (**self).is_available()
    }

    fn round_trip(&self) -> Option<Span> {
        (**self).round_trip()
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        (**self).usage().await
    }

    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        (**self).overflowed_of(rule)
    }
}

impl<S: LocalStore + ?Sized> LocalStore for std::sync::Arc<S> {
    #[inline]
    fn settle_now(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool {
        (**self).settle_now(charges, out)
    }

    fn refund_now(&self, charge: &Charge<'_>) {
        (**self).refund_now(charge);
    }

    fn reset_now(&self, charge: &Charge<'_>) {
        (**self).reset_now(charge);
    }
}
