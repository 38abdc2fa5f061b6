//! The traits that every store implements.

use std::fmt;
use std::future::Future;

use tidegate_core::{Charge, Rule, Span, Verdict};

use crate::{Promise, StoreError, Verdicts};

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
/// A store in memory answers at once and implements [`LocalStore`] too. To write a remote one, return a
/// future from [`settle`](Store::settle), report a [shared secret](StoreProfile::shared_secret), and begin
/// with `tidegate_core::settle`: it decides, given access to the states.
///
/// A store around another one, here to count its requests, is a few lines:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate::{
///     Charge, Limiter, MemoryStore, Promise, SettleResult, Span, Store, StoreError, Verdicts,
/// };
///
/// #[derive(Default)]
/// struct Counted {
///     inner: MemoryStore,
///     requests: AtomicU64,
/// }
///
/// impl Store for Counted {
///     fn settle<'a>(
///         &'a self,
///         charges: &'a [Charge<'a>],
///         deadline: Option<Span>,
///         out: &'a mut Verdicts,
///     ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
///         self.requests.fetch_add(1, Ordering::Relaxed);
///         self.inner.settle(charges, deadline, out)
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
    /// What kind of store this is.
    #[inline]
    fn profile(&self) -> StoreProfile {
        StoreProfile::EMBEDDED
    }

    /// Settles the charges of one request: returns whether every enforced charge passes, and appends a
    /// verdict for each charge to `out`. Charges that cost nothing are peeks, and change nothing.
    ///
    /// A store that has to wait must give up by the `deadline` if that is before its own, with an error of
    /// kind [`Timeout`](crate::StoreErrorKind::Timeout).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store could not decide. Verdicts in `out` do not count then.
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a>;

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

    /// Sets the deadline of all operations from now on, for stores that have to wait.
    fn set_deadline(&self, longest: Span) {
        let _ = longest;
    }

    /// How well the store can be reached.
    fn health(&self) -> StoreHealth {
        StoreHealth::EMBEDDED
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

/// Whether every enforced charge of a settlement passes.
pub type SettleResult = Result<bool, StoreError>;

/// What kind of store it is: facts that do not depend on its counters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoreProfile {
    /// The secret with which keys become fingerprints, if other processes must find the same counters.
    /// `None` if no other process sees them: then each process has its own secret.
    pub shared_secret: Option<[u8; 16]>,
    /// Whether the store may settle several counters one after the other. Then units of the first are
    /// given back if a later counter denies, and look used in between.
    pub is_stepwise: bool,
    /// Whether the names of callers and limits are part of its keys, so that [charges](Charge::with_names)
    /// must carry them.
    pub names_keys: bool,
}

impl StoreProfile {
    /// A store in this process, which shares nothing.
    pub const EMBEDDED: Self = Self { shared_secret: None, is_stepwise: false, names_keys: false };

    /// A store that other processes share, which settles everything in one step.
    pub const fn remote(secret: [u8; 16]) -> Self {
        Self { shared_secret: Some(secret), ..Self::EMBEDDED }
    }

    /// Whether other processes share the store, so that asking it takes a while and can fail.
    #[inline]
    pub const fn is_remote(&self) -> bool {
        self.shared_secret.is_some()
    }
}

/// Without the secret.
impl fmt::Debug for StoreProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreProfile")
            .field("is_remote", &self.is_remote())
            .field("is_stepwise", &self.is_stepwise)
            .field("names_keys", &self.names_keys)
            .finish()
    }
}

/// How well a store can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// Whether requests are currently sent to the store. They are not while it does not answer.
    pub is_available: bool,
    /// The typical round trip, for remote stores that have answered.
    pub round_trip: Option<Span>,
}

impl StoreHealth {
    /// Of a store in this process, which is always there.
    pub const EMBEDDED: Self = Self { is_available: true, round_trip: None };
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
    #[inline]
    fn profile(&self) -> StoreProfile {
        (**self).profile()
    }

    #[inline]
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        (**self).settle(charges, deadline, out)
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        (**self).settle_each(charges, report)
    }

    fn refund(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).refund(charge)
    }

    fn reset(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).reset(charge)
    }

    fn set_deadline(&self, longest: Span) {
        (**self).set_deadline(longest);
    }

    fn health(&self) -> StoreHealth {
        (**self).health()
    }

    fn usage(&self) -> impl Future<Output = Result<StoreUsage, StoreError>> + Send {
        (**self).usage()
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
