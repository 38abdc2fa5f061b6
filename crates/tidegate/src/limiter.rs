//! The limiter: a policy, a store, and what to do when the store fails.

use std::future::Future;

use tidegate_core::{Charge, Cost};
use tidegate_policy::{Charges, Key, Policy};
use tidegate_store::{LocalStore, MemoryStats, MemoryStore, Store, StoreError, Verdicts};

use crate::deny_cache::DenyCache;
use crate::fallback::{self, Fallback};
use crate::wait::{Lines, Patience};
use crate::{Decision, LimiterBuilder, OnStoreError, Source};

/// Decides whether something may happen now.
///
/// A limiter is shared by reference (or in an `Arc`): everything takes `&self`, from any thread.
///
/// ```
/// use tidegate::{AlgorithmKind, Limiter};
///
/// let limiter = Limiter::builder()
///     .name("password-reset")
///     .algorithm(AlgorithmKind::SlidingLog)
///     .limits(["5/minute", "20/hour"])
///     .build()?;
///
/// let decision = limiter.check_now(&("203.0.113.9", "alice"));
/// assert_eq!(decision.remaining(), Some(4));
/// assert_eq!(decision.verdicts().len(), 2);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Limiter<S = MemoryStore> {
    pub(crate) policy: Policy,
    pub(crate) store: S,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) patience: Patience,
    pub(crate) lines: Lines,
    /// For a store that is shared with other processes.
    pub(crate) remote: Option<Remote>,
    pub(crate) fallback: Fallback,
}

/// What spares a store at the other end of a wire.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) denials: DenyCache,
}

impl Limiter {
    /// Chooses limits, names and stores.
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }
}

impl<S: Store> Limiter<S> {
    /// The policy it applies.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store it asks.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// May `key` do something that costs one unit? Takes the unit if it may.
    pub async fn check<K: Key + Sync + ?Sized>(&self, key: &K) -> Decision {
        self.check_n(key, Cost::ONE).await
    }

    /// May `key` do something that costs this much? Takes all of it, or nothing.
    pub async fn check_n<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        let charges = self.policy.charges(key, cost);
        self.settle(&charges).await
    }

    /// How does `key` stand? Takes nothing.
    pub async fn peek<K: Key + Sync + ?Sized>(&self, key: &K) -> Decision {
        self.check_n(key, Cost::PEEK).await
    }

    /// Gives back what an earlier check took, because it was not used after all. No counter gets
    /// fuller than full, but it is the caller who knows what was taken, and when: what is given
    /// back in a later window is given to that window.
    pub async fn refund<K: Key + Sync + ?Sized>(&self, key: &K, amount: Cost) {
        for charge in &self.policy.charges(key, amount) {
            // A store that does not answer has nothing to give back to: erring on the strict side.
            let _ = self.store.refund(charge).await;
            self.fallback.refund(charge);
        }
        self.forget_denials();
    }

    /// Forgets `key`: it has its full quota again.
    pub async fn reset<K: Key + Sync + ?Sized>(&self, key: &K) {
        for charge in &self.policy.charges(key, Cost::ONE) {
            let _ = self.store.reset(charge).await;
            self.fallback.reset(charge);
        }
        self.forget_denials();
    }

    fn forget_denials(&self) {
        if let Some(remote) = &self.remote {
            remote.denials.forget();
        }
    }

    pub(crate) async fn settle(&self, charges: &Charges<'_>) -> Decision {
        match &self.remote {
            Some(remote) => self.settle_remotely(remote, charges).await,
            None => self.ask_store(charges).await.unwrap_or_else(|_| self.without_store(charges)),
        }
    }

    /// By the store, unless the answer is known already.
    async fn settle_remotely(&self, remote: &Remote, charges: &Charges<'_>) -> Decision {
        if let Some(verdicts) = fallback::hopeless(charges) {
            return self.decided(false, Source::Store, verdicts);
        }
        let now = remote.denials.now();
        if let Some(verdicts) = remote.denials.recall(charges, now) {
            return self.decided(false, Source::DenyCache, verdicts);
        }
        let Ok(decision) = self.ask_store(charges).await else {
            return self.without_store(charges);
        };
        if !decision.is_allowed() {
            remote.denials.remember(charges, decision.all_verdicts(), now);
        }
        if self.on_store_error == OnStoreError::Local {
            self.fallback.saw(charges, decision.all_verdicts());
        }
        decision
    }

    async fn ask_store(&self, charges: &[Charge<'_>]) -> Result<Decision, StoreError> {
        let mut verdicts = Verdicts::new();
        let allowed = self.store.settle(charges, &mut verdicts).await?;
        Ok(self.decided(allowed, Source::Store, verdicts))
    }

    fn decided(&self, allowed: bool, source: Source, verdicts: Verdicts) -> Decision {
        Decision::settled(self.policy.rules(), source, |out| {
            *out = verdicts;
            allowed
        })
    }

    /// The only place that knows what a failed store means.
    #[cold]
    fn without_store(&self, charges: &[Charge<'_>]) -> Decision {
        if let Some(verdicts) = fallback::hopeless(charges) {
            return self.decided(false, Source::Fallback, verdicts);
        }
        match self.on_store_error {
            OnStoreError::Open => Decision::unsettled(true, Source::Fallback),
            OnStoreError::Closed => Decision::unavailable(fallback::RETRY_AFTER),
            OnStoreError::Local => {
                Decision::settled(self.policy.rules(), Source::Fallback, |out| {
                    self.fallback.settle(charges, out)
                })
            }
        }
    }
}

impl<S: LocalStore> Limiter<S> {
    /// [`check`](Limiter::check) without `await`: the store is in this process.
    #[inline(always)]
    pub fn check_now<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_n_now(key, Cost::ONE)
    }

    /// [`check_n`](Limiter::check_n) without `await`.
    #[inline(always)]
    pub fn check_n_now<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        Decision::settled(self.policy.rules(), Source::Store, |out| {
            self.policy.with_charges(key, cost, |charges| self.store.settle_now(charges, out))
        })
    }

    /// [`peek`](Limiter::peek) without `await`.
    pub fn peek_now<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_n_now(key, Cost::PEEK)
    }

    /// [`refund`](Limiter::refund) without `await`.
    pub fn refund_now<K: Key + ?Sized>(&self, key: &K, amount: Cost) {
        for charge in &self.policy.charges(key, amount) {
            self.store.refund_now(charge);
        }
    }

    /// [`reset`](Limiter::reset) without `await`.
    pub fn reset_now<K: Key + ?Sized>(&self, key: &K) {
        for charge in &self.policy.charges(key, Cost::ONE) {
            self.store.reset_now(charge);
        }
    }
}

impl<C: tidegate_store::Clock> Limiter<MemoryStore<C>> {
    /// What the store holds.
    pub fn stats(&self) -> MemoryStats {
        self.store.stats()
    }
}

/// Anything that decides: a [`Limiter`], or your own in its place.
///
/// ```
/// use tidegate::{Cost, Decision, Key, Limiter, RateLimiter, Source};
///
/// /// For tests of code that is limited.
/// struct Unlimited;
///
/// impl RateLimiter for Unlimited {
///     async fn decide<K: Key + Sync + ?Sized>(&self, _: &K, _: Cost) -> Decision {
///         Decision::unsettled(true, Source::None)
///     }
/// }
///
/// async fn send_mail(limiter: &impl RateLimiter, to: &str) -> bool {
///     limiter.decide(to, Cost::ONE).await.is_allowed()
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::BuildError> {
/// assert!(send_mail(&Unlimited, "bob").await);
/// assert!(send_mail(&Limiter::builder().limit("5/day").build()?, "bob").await);
/// # Ok(())
/// # }
/// ```
pub trait RateLimiter: Send + Sync {
    /// May `key` do something that costs this much?
    fn decide<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
    ) -> impl Future<Output = Decision> + Send;
}

impl<S: Store> RateLimiter for Limiter<S> {
    async fn decide<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.check_n(key, cost).await
    }
}

impl<L: RateLimiter + ?Sized> RateLimiter for std::sync::Arc<L> {
    async fn decide<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        (**self).decide(key, cost).await
    }
}
