//! What a limiter can do without waiting, because its store is in this process.

use tidegate_core::Cost;
use tidegate_policy::Key;
use tidegate_store::{Clock, LocalStore, MemoryStats, MemoryStore};

use super::Limiter;
use crate::{Decision, DecisionSource};

impl<S: LocalStore> Limiter<S> {
    /// [`check`](Limiter::check) without `await`: the store is in this process.
    ///
    /// Takes a fraction of a microsecond, allocates nothing for a known key, and works outside of any runtime.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::builder().limit("1/hour").build()?;
    /// assert!(limiter.check_now("alice").is_allowed());
    /// assert!(!limiter.check_now("alice").is_allowed());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn check_now<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_n_now(key, Cost::ONE)
    }

    /// [`check_n`](Limiter::check_n) without `await`.
    #[inline(always)]
    pub fn check_n_now<K: Key + ?Sized>(&self, key: &K, cost: impl Into<Cost>) -> Decision {
        let cost = cost.into();
        Decision::of_rules(self.policy.rules(), DecisionSource::Store, |out| {
            self.policy
                .with_charges(key, cost, |charges| self.decider.store().settle_now(charges, out))
        })
    }

    /// [`peek`](Limiter::peek) without `await`.
    pub fn peek_now<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_n_now(key, Cost::PEEK)
    }

    /// [`refund`](Limiter::refund) without `await`.
    pub fn refund_now<K: Key + ?Sized>(&self, key: &K, amount: impl Into<Cost>) {
        for charge in &self.policy.charges(key, amount.into()) {
            self.decider.store().refund_now(charge);
        }
    }

    /// [`reset`](Limiter::reset) without `await`.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::builder().limit("1/hour").build()?;
    /// assert!(limiter.check_now("alice").is_allowed());
    /// limiter.reset_now("alice");
    /// assert!(limiter.check_now("alice").is_allowed());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn reset_now<K: Key + ?Sized>(&self, key: &K) {
        for charge in &self.policy.charges(key, Cost::ONE) {
            self.decider.store().reset_now(charge);
        }
    }
}

impl<C: Clock> Limiter<MemoryStore<C>> {
    /// What the store holds.
    pub fn stats(&self) -> MemoryStats {
        self.decider.store().stats()
    }
}
