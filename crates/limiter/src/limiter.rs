//! The limiter: a policy, a store, and what to do when the store fails.

use std::future::Future;

use tidegate_core::{Charge, Cost};
use tidegate_policy::{Key, OnStoreError, Policy, PolicyCharges, Precision, key_as_text};
use tidegate_store::{LocalStore, MemoryStats, MemoryStore, Store, StoreError};

use crate::decider::{Decider, DecisionTerms, RefundTarget};
use crate::wait_queue::{WaitLimits, WaitQueues};
use crate::{Decision, DecisionSource, LimiterBuilder, StoreReport};

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
    /// What its limits are called, if the store calls keys by names.
    pub(crate) limit_names: Vec<String>,
    pub(crate) gate: Decider<S>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) precision: Precision,
    pub(crate) patience: WaitLimits,
    pub(crate) lines: WaitQueues,
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
        self.gate.store()
    }

    /// May `key` do something that costs one unit? Takes the unit if it may.
    pub fn check<K: Key + Sync + ?Sized>(&self, key: &K) -> impl Future<Output = Decision> + Send {
        self.check_n(key, Cost::ONE)
    }

    /// May `key` do something that costs this much? Takes all of it, or nothing.
    pub async fn check_n<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        let mut name = String::new();
        let charges = self.charges(key, cost, &mut name);
        self.decide_charges(&charges).await
    }

    /// What `key` owes. `name` is a place for what it is called, if the store calls keys by names.
    pub(crate) fn charges<'a, K: Key + ?Sized>(
        &'a self,
        key: &K,
        cost: Cost,
        name: &'a mut String,
    ) -> PolicyCharges<'a> {
        let mut charges = self.policy.charges(key, cost);
        if !self.limit_names.is_empty() {
            *name = key_as_text(key);
            for (charge, limit) in charges.iter_mut().zip(&self.limit_names) {
                *charge = charge.named(name).of_limit(limit);
            }
        }
        charges
    }

    /// [`check_n`](Limiter::check_n) for whoever cannot wait. `None` where the store is at the other
    /// end of a wire and has to be asked: then nothing was.
    #[inline]
    pub fn try_check_n<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Option<Decision> {
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        self.try_check_into(key, cost, &mut decision).then_some(decision)
    }

    /// [`try_check_n`](Limiter::try_check_n) into a place for the decision, which is not moved about
    /// then. Whether there is one.
    ///
    /// ```
    /// # use tidegate::{Cost, Decision, Limiter, DecisionSource};
    /// let limiter = Limiter::builder().limit("2/day").build()?;
    /// let mut decision = Decision::unsettled(false, DecisionSource::None);
    /// assert!(limiter.try_check_into("alice", Cost::ONE, &mut decision));
    /// assert_eq!(decision.remaining(), Some(1));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[inline]
    pub fn try_check_into<K: Key + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        place: &mut Decision,
    ) -> bool {
        if self.gate.is_remote() {
            let charges = self.policy.charges(key, cost);
            let decision = self.gate.try_decide(&charges, DecisionTerms::of(self.precision));
            return decision.map(|decision| *place = decision).is_some();
        }
        let mut is_answered = false;
        *place = Decision::without_verdicts(false, DecisionSource::Store);
        place.fill_by_rules(self.policy.rules(), |out| {
            let answer = self
                .policy
                .with_charges(key, cost, |charges| self.gate.store().try_settle(charges, out));
            is_answered = answer.is_some();
            answer.unwrap_or_default()
        });
        is_answered
    }

    /// How does `key` stand? Takes nothing, and so is never denied for being used up: look at
    /// [`remaining`](Decision::remaining). ([`PlanLimiter::peek`](crate::PlanLimiter::peek) says
    /// whether the least cost would pass.)
    pub async fn peek<K: Key + Sync + ?Sized>(&self, key: &K) -> Decision {
        self.check_n(key, Cost::PEEK).await
    }

    /// Gives back what an earlier check took, because it was not used after all. No counter gets
    /// fuller than full, but it is the caller who knows what was taken, and when: what is given
    /// back in a later window is given to that window.
    ///
    /// Fails if the store does not answer; then nothing is given back, which errs on the strict side.
    pub async fn refund<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        amount: Cost,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut name = String::new();
        for charge in &self.charges(key, amount, &mut name) {
            outcome = outcome.and(self.gate.refund(charge, RefundTarget::Either).await);
        }
        outcome
    }

    /// Undoes a decision about `key`: what it took goes back to where it was taken from (the store, or
    /// its stand-in). A decision that took nothing gives nothing back.
    ///
    /// ```
    /// # use tidegate::{Cost, Limiter};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::builder().limit("2/day").build()?;
    /// let decision = limiter.check("alice").await;
    /// limiter.undo("alice", Cost::ONE, &decision).await?;
    /// assert_eq!(limiter.peek("alice").await.remaining(), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn undo<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut name = String::new();
        let charges = self.charges(key, cost, &mut name);
        for (index, charge) in charges.iter().enumerate() {
            if decision.has_paid(&charges, index) {
                let payee = RefundTarget::of(decision.source());
                outcome = outcome.and(self.gate.refund(charge, payee).await);
            }
        }
        outcome
    }

    /// Forgets `key`: it has its full quota again, unless the store does not answer.
    pub async fn reset<K: Key + Sync + ?Sized>(&self, key: &K) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut name = String::new();
        for charge in &self.charges(key, Cost::ONE, &mut name) {
            outcome = outcome.and(self.gate.reset(charge).await);
        }
        outcome
    }

    /// What is wrong with a store at the other end of a wire, as decisions saw it last.
    pub fn store_problem(&self) -> Option<String> {
        self.gate.store_problem()
    }

    /// How the store is doing.
    pub fn store_report(&self) -> StoreReport {
        self.gate.report()
    }

    pub(crate) fn decide_charges(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Decision> + Send {
        self.gate.decide(charges, DecisionTerms::of(self.precision), |_| self.on_store_error)
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
        Decision::of_rules(self.policy.rules(), DecisionSource::Store, |out| {
            self.policy
                .with_charges(key, cost, |charges| self.gate.store().settle_now(charges, out))
        })
    }

    /// [`peek`](Limiter::peek) without `await`.
    pub fn peek_now<K: Key + ?Sized>(&self, key: &K) -> Decision {
        self.check_n_now(key, Cost::PEEK)
    }

    /// [`refund`](Limiter::refund) without `await`.
    pub fn refund_now<K: Key + ?Sized>(&self, key: &K, amount: Cost) {
        for charge in &self.policy.charges(key, amount) {
            self.gate.store().refund_now(charge);
        }
    }

    /// [`reset`](Limiter::reset) without `await`.
    pub fn reset_now<K: Key + ?Sized>(&self, key: &K) {
        for charge in &self.policy.charges(key, Cost::ONE) {
            self.gate.store().reset_now(charge);
        }
    }
}

impl<C: tidegate_store::Clock> Limiter<MemoryStore<C>> {
    /// What the store holds.
    pub fn stats(&self) -> MemoryStats {
        self.gate.store().stats()
    }
}
