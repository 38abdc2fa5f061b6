//! The traits that every store implements.

use std::future::Future;

use tidegate_core::{Charge, Rule, Span, Verdict};

use crate::{StoreError, Verdicts};

/// Keeps counters, and owns the clock that they use.
///
/// The contract, which `conformance::suite!` checks:
///
/// - **Atomic.** No settlement sees another half done: with a frozen clock, exactly as many callers
///   pass as the limit allows. Either all charges of a settlement pay, or none does.
/// - **Exact.** Verdicts match those of `tidegate_core`, to the last unit and microsecond.
/// - **One clock.** The store's own, read once per settlement.
/// - **Forgetful.** Every counter is dropped some time after it stops mattering, and never before.
///
/// An error means that the store could not decide. If the charges may have been taken all the same, the
/// error must [report it](StoreError::may_have_settled).
///
/// A store in memory settles without waiting and implements [`LocalStore`] too; it answers
/// [`try_settle`](Store::try_settle), which callers that are not async use. A remote store implements
/// [`settle`](Store::settle) and leaves the defaults of both. To write one, begin with `tidegate_core::settle`:
/// it decides, given access to the states.
///
/// A store around another one, here to count its requests, is a few lines:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate::{Charge, Limiter, MemoryStore, Store, StoreError, Verdicts};
///
/// #[derive(Default)]
/// struct Counted {
///     inner: MemoryStore,
///     requests: AtomicU64,
/// }
///
/// impl Store for Counted {
///     async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
///         self.requests.fetch_add(1, Ordering::Relaxed);
///         self.inner.settle(charges, out).await
///     }
///
///     async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
///         self.inner.refund(charge).await
///     }
///
///     async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
///         self.inner.reset(charge).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::BuildError> {
/// let limiter = Limiter::builder().limit("1/hour").store(Counted::default()).build()?;
/// assert!(limiter.check("alice").await.is_allowed());
/// assert!(!limiter.check("alice").await.is_allowed());
/// assert_eq!(limiter.store().requests.load(Ordering::Relaxed), 2);
/// # Ok(())
/// # }
/// ```
pub trait Store: Send + Sync {
    /// Settles the charges of one request: returns whether every enforced charge passes, and appends a
    /// verdict for each charge to `out`. Charges that cost nothing are peeks, and change nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store could not decide. Verdicts in `out` do not count then.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// [`settle`](Store::settle) with a deadline that is shorter than the store's own. Stores that have
    /// to wait must give up by then, with an error of kind [`Timeout`](crate::StoreErrorKind::Timeout),
    /// and treat it as any other missed deadline.
    fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        deadline: Span,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = deadline;
        self.settle(charges, out)
    }

    /// Whether the store may settle several counters one after the other. Then units of the first are
    /// given back if a later counter denies, and look used in between.
    fn is_stepwise(&self) -> bool {
        false
    }

    /// [`settle`](Store::settle) for callers that cannot wait. Returns `None`, and takes nothing, if the
    /// store would have to wait: the caller should use `settle` then.
    fn try_settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        let _ = (charges, out);
        None
    }

    /// Settles each charge separately, in order, for callers that have many charges and cannot wait.
    /// Calls `report` with each verdict. Charges are taken in groups, so that the store can prefetch
    /// memory while the caller produces the next charges. A group uses one reading of the clock, unless
    /// another thread settled at a later time. Returns `false`, and takes nothing, if the store would
    /// have to wait.
    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        let _ = (charges, report);
        false
    }

    /// Gives a charge's cost back.
    ///
    /// The counter never holds more than its limit afterwards, and what has expired in the meantime stays
    /// expired: a refund that comes too late changes nothing.
    fn refund(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Deletes a charge's counter, as if the key were new.
    fn reset(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The secret with which keys become fingerprints, if other processes must find the same counters.
    /// `None` if no other process sees them: then each process has its own secret.
    fn shared_secret(&self) -> Option<[u8; 16]> {
        None
    }

    /// Whether the names of callers and limits are part of its keys, so that [charges](Charge::named)
    /// must carry them.
    fn names_keys(&self) -> bool {
        false
    }

    /// Sets the deadline of all operations from now on, for stores that have to wait.
    fn set_deadline(&self, longest: Span) {
        let _ = longest;
    }

    /// Whether requests are currently sent to the store. They are not while it does not answer.
    fn is_available(&self) -> bool {
        true
    }

    /// The typical round trip, for remote stores that have answered.
    fn round_trip(&self) -> Option<Span> {
        None
    }

    /// What the store holds, as far as that is known, for operators and metrics.
    fn usage(&self) -> impl Future<Output = Result<StoreUsage, StoreError>> + Send {
        async { Ok(StoreUsage::default()) }
    }

    /// The part of [`StoreUsage::overflowed`] that belongs to this rule's keys, if that is known.
    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        let _ = rule;
        None
    }
}

/// What a store holds, as far as that is known.
///
/// A field is `None` if the store does not know, or if asking would be too expensive: metrics leave it out
/// then.
///
/// ```
/// use tidegate::{MemoryStore, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::StoreError> {
/// let usage = MemoryStore::new().usage().await?;
/// assert_eq!(usage.keys, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Keys, including expired ones that have not been removed yet.
    pub keys: Option<u64>,
    /// The most keys that it can hold.
    pub max_keys: Option<u64>,
    /// Charges of new keys that had to share a counter because there was no room for them.
    pub overflowed: Option<u64>,
    /// The memory of its counters in bytes, or of the store's whole process.
    pub bytes: Option<u64>,
    /// The most that this memory can grow to.
    pub max_bytes: Option<u64>,
    /// Whether it evicts live counters when its memory is full, which gives their callers a fresh quota.
    pub may_evict: Option<bool>,
}

/// A store in this process: it answers immediately and cannot fail.
///
/// Limiters over such a store have methods that do not wait.
///
/// ```
/// use tidegate_core::{Charge, Cost, Fingerprint, Rule};
/// use tidegate_store::{LocalStore, MemoryStore, Verdicts};
///
/// let limit = "2/minute".parse()?;
/// let rule = Rule { id: Fingerprint::new(1, 1), limit, enforced: true, staggered: false };
/// let charge = Charge::new(Fingerprint::new(2, 2), Cost::ONE, &rule);
/// let (store, mut verdicts) = (MemoryStore::new(), Verdicts::new());
/// assert!(store.settle_now(&[charge], &mut verdicts));
/// store.refund_now(&charge);
/// assert!(store.settle_now(&[charge], &mut verdicts));
/// assert_eq!(verdicts[1].remaining, 1);
/// # Ok::<(), tidegate_core::QuotaError>(())
/// ```
pub trait LocalStore: Store {
    /// [`Store::settle`], immediately.
    fn settle_now(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool;

    /// [`Store::refund`], immediately.
    fn refund_now(&self, charge: &Charge<'_>);

    /// [`Store::reset`], immediately.
    fn reset_now(&self, charge: &Charge<'_>);
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        (**self).settle(charges, out).await
    }

    async fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        deadline: Span,
    ) -> Result<bool, StoreError> {
        (**self).settle_within(charges, out, deadline).await
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
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        (**self).settle_each(charges, report)
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
