//! What a store owes.

use std::future::Future;

use smallvec::SmallVec;
use tidegate_core::{Charge, Span, Verdict};

use crate::StoreError;

/// The verdicts of one settlement, in the order of its charges. No allocation for one or
/// two, as policies have.
pub type Verdicts = SmallVec<[Verdict; 2]>;

/// Keeps counters and tells the time.
///
/// The contract, which `conformance::suite!` checks:
///
/// - **Atomic.** A settlement sees no other one half done: at a frozen clock exactly as many
///   callers pass as the limit allows. The charges of one settlement all pay, or none does.
/// - **Exact.** Verdicts are those of `tidegate_core`, to the last unit and microsecond.
/// - **One clock.** The store's own, read once for each settlement.
/// - **Forgetful.** Every counter is dropped at some time after it stopped to matter, and none
///   before.
///
/// An error means that the store could not decide; it must not be returned when the charges may
/// have been paid, unless it [says so](StoreError::may_have_settled).
pub trait Store: Send + Sync {
    /// Decides one request: whether every enforced charge passes. Appends a verdict for each
    /// charge to `out`. Charges that cost nothing are peeks, and change nothing.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// [`settle`](Store::settle) for whoever cannot wait. `None` where the answer takes a while:
    /// then nothing was done, and `settle` is to be asked.
    fn settle_at_once(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        let _ = (charges, out);
        None
    }

    /// Says that this charge will be settled in a moment, so that what takes long to reach may be on
    /// its way by then. Changes nothing.
    fn announce(&self, charge: &Charge<'_>) {
        let _ = charge;
    }

    /// Gives a charge's cost back.
    fn refund(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets a charge's counter: the key is as if never seen.
    fn reset(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The secret under which keys become fingerprints, where other processes must find the same
    /// counters. `None` where nobody else ever sees them: then each process has its own.
    fn shared_secret(&self) -> Option<[u8; 16]> {
        None
    }

    /// From now on nothing may take longer than this, where anything has to be waited for.
    fn set_deadline(&self, longest: Span) {
        let _ = longest;
    }

    /// Whether it is being asked at the moment; not while it does not answer.
    fn is_available(&self) -> bool {
        true
    }

    /// What it holds, as far as that can be known, for those who look after it.
    fn usage(&self) -> impl Future<Output = Result<Usage, StoreError>> + Send {
        async { Ok(Usage::default()) }
    }
}

/// What a store holds, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys, dead ones that nobody has swept out included.
    pub keys: Option<u64>,
    /// How many it may hold.
    pub max_keys: Option<u64>,
    /// Charges of new keys that had to share a counter because it was full.
    pub overflowed: Option<u64>,
    /// The memory of a store that is a process of its own, in bytes.
    pub bytes: Option<u64>,
    /// What that may grow to.
    pub max_bytes: Option<u64>,
}

/// A store in this process: it answers at once and cannot fail.
pub trait LocalStore: Store {
    /// [`Store::settle`], now.
    fn settle_now(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool;

    /// [`Store::refund`], now.
    fn refund_now(&self, charge: &Charge<'_>);

    /// [`Store::reset`], now.
    fn reset_now(&self, charge: &Charge<'_>);
}

/// A shared store is a store.
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        (**self).settle(charges, out).await
    }

    fn settle_at_once(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Option<bool> {
        (**self).settle_at_once(charges, out)
    }

    fn announce(&self, charge: &Charge<'_>) {
        (**self).announce(charge);
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

    fn set_deadline(&self, longest: Span) {
        (**self).set_deadline(longest);
    }

    fn is_available(&self) -> bool {
        (**self).is_available()
    }

    async fn usage(&self) -> Result<Usage, StoreError> {
        (**self).usage().await
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
