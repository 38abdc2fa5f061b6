//! The limiter: a policy, a store, and the behaviour when the store fails.

mod local;

use std::fmt;
use std::future::Future;

use tidegate_core::{Charge, ChargeNames, Cost};
use tidegate_policy::{Key, OnStoreError, Policy, PolicyCharges, Precision, key_as_text};
use tidegate_store::{MemoryStore, Store, StoreError};

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
pub struct Limiter<S = MemoryStore> {
    pub(crate) policy: Policy,
    /// The names of the limits, if the store stores keys by name.
    pub(crate) limit_names: Vec<String>,
    pub(crate) decider: Decider<S>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) precision: Precision,
    pub(crate) wait_limits: WaitLimits,
    pub(crate) queues: WaitQueues,
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

    /// The store that holds its counters.
    pub const fn store(&self) -> &S {
        self.decider.store()
    }

    /// May `key` do something that costs one unit? Takes the unit if it may.
    ///
    /// A key is text, a number, an address, or a tuple of these; see [`Key`]. It is hashed at once, so its length
    /// does not matter to the store.
    ///
    /// The decision is always there: if the store does not answer in time, the limiter's
    /// [`OnStoreError`] decides. Dropping the future before it is ready may or may not take the unit.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::BuildError> {
    /// let limiter = Limiter::builder().limit("1/hour").build()?;
    /// assert!(limiter.check("alice").await.is_allowed());
    /// assert!(!limiter.check("alice").await.is_allowed());
    /// assert!(limiter.check(&("tenant", 7)).await.is_allowed()); // another key
    /// # Ok(())
    /// # }
    /// ```
    pub fn check<K: Key + Sync + ?Sized>(&self, key: &K) -> impl Future<Output = Decision> + Send {
        self.check_n(key, Cost::ONE)
    }

    /// May `key` do something that costs this much? Takes all of it, or nothing.
    ///
    /// A cost that is more than a limit holds never passes, however long the caller waits:
    /// [`retry_after`](Decision::retry_after) is `None` then.
    ///
    /// ```
    /// use tidegate::{DecisionReason, Limiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::builder().limit("10/minute").build()?;
    /// let decision = limiter.check_n("alice", 11).await;
    /// assert_eq!(decision.reason(), DecisionReason::CostExceedsLimit);
    /// assert_eq!(decision.retry_after(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_n<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: impl Into<Cost> + Send,
    ) -> Decision {
        let mut names = Vec::new();
        let charges = self.charges(key, cost.into(), &mut names);
        self.decide_charges(&charges).await
    }

    /// The charges of a request by `key`. `names` is a buffer, which is filled only if the store stores
    /// keys by name.
    pub(crate) fn charges<'a, K: Key + ?Sized>(
        &'a self,
        key: &K,
        cost: Cost,
        names: &'a mut Vec<ChargeNames>,
    ) -> PolicyCharges<'a> {
        let mut charges = self.policy.charges(key, cost);
        if !self.limit_names.is_empty() {
            let entity = key_as_text(key);
            names.extend(self.limit_names.iter().map(|limit| ChargeNames::new(&*entity, limit)));
            for (charge, names) in charges.iter_mut().zip(names) {
                *charge = charge.with_names(names);
            }
        }
        charges
    }

    /// [`check_n`](Limiter::check_n) for callers that cannot wait. Returns `None`, and takes nothing,
    /// if a remote store has to be asked.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::builder().limit("5/day").build()?;
    /// match limiter.try_check_n("alice", 2) {
    ///     Some(decision) => assert_eq!(decision.remaining(), Some(3)),
    ///     None => println!("a remote store has to be asked: use check_n"),
    /// }
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[inline]
    pub fn try_check_n<K: Key + ?Sized>(&self, key: &K, cost: impl Into<Cost>) -> Option<Decision> {
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        self.try_check_into(key, cost.into(), &mut decision).then_some(decision)
    }

    /// [`try_check_n`](Limiter::try_check_n) into an existing decision, which saves a move. Returns
    /// whether there is a decision.
    ///
    /// ```
    /// # use tidegate::{Cost, Decision, Limiter, DecisionSource};
    /// let limiter = Limiter::builder().limit("2/day").build()?;
    /// let mut decision = Decision::without_verdicts(false, DecisionSource::None);
    /// assert!(limiter.try_check_into("alice", Cost::ONE, &mut decision));
    /// assert_eq!(decision.remaining(), Some(1));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[inline]
    pub fn try_check_into<K: Key + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        decision: &mut Decision,
    ) -> bool {
        if self.decider.is_remote() {
            let charges = self.policy.charges(key, cost);
            let terms = || DecisionTerms::of(self.precision);
            let decided = self.decider.begin(&charges, terms).ready();
            return decided.map(|decided| *decision = decided).is_some();
        }
        let mut is_answered = false;
        *decision = Decision::without_verdicts(false, DecisionSource::Store);
        decision.fill_by_rules(self.policy.rules(), |out| {
            let answer = self.policy.with_charges(key, cost, |charges| {
                self.decider.store().settle(charges, None, out).ready().and_then(Result::ok)
            });
            is_answered = answer.is_some();
            answer.unwrap_or_default()
        });
        is_answered
    }

    /// How much does `key` have left? Takes nothing, so it is allowed even when nothing is left: look
    /// at [`remaining`](Decision::remaining). ([`ChargeIntent::Peek`](crate::ChargeIntent::Peek)
    /// reports whether the smallest cost would pass.)
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::BuildError> {
    /// let limiter = Limiter::builder().limit("3/hour").build()?;
    /// let _ = limiter.check("alice").await;
    /// assert_eq!(limiter.peek("alice").await.remaining(), Some(2));
    /// assert_eq!(limiter.peek("alice").await.remaining(), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn peek<K: Key + Sync + ?Sized>(&self, key: &K) -> Decision {
        self.check_n(key, Cost::PEEK).await
    }

    /// Gives back what an earlier check took, because it was not used after all. A refund never raises
    /// a counter above its limit, but only the caller knows what was taken and when: a refund in a
    /// later window goes to that window.
    ///
    /// Fails if the store does not answer. Then nothing is given back: the limit stays too strict, not
    /// too lenient.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::builder().limit("100/minute").build()?;
    /// // Take the most that the answer can cost, and give back what it did not.
    /// assert!(limiter.check_n("alice", 50).await.is_allowed());
    /// limiter.refund("alice", 20).await?;
    /// assert_eq!(limiter.peek("alice").await.remaining(), Some(70));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn refund<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        amount: impl Into<Cost> + Send,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut names = Vec::new();
        for charge in &self.charges(key, amount.into(), &mut names) {
            outcome = outcome.and(self.decider.refund(charge, RefundTarget::Either).await);
        }
        outcome
    }

    /// Undoes a decision about `key`: the units go back to where they were taken from (the store, or
    /// its local fallback). A decision that took nothing gives nothing back.
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
        let mut names = Vec::new();
        let charges = self.charges(key, cost, &mut names);
        for (index, charge) in charges.iter().enumerate() {
            if decision.has_paid(&charges, index) {
                let target = RefundTarget::of(decision.source());
                outcome = outcome.and(self.decider.refund(charge, target).await);
            }
        }
        outcome
    }

    /// Deletes the counters of `key`, which then has its full quota again. Fails if the store does not
    /// answer.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::builder().limit("1/day").build()?;
    /// assert!(limiter.check("alice").await.is_allowed());
    /// limiter.reset("alice").await?;
    /// assert!(limiter.check("alice").await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reset<K: Key + Sync + ?Sized>(&self, key: &K) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut names = Vec::new();
        for charge in &self.charges(key, Cost::ONE, &mut names) {
            outcome = outcome.and(self.decider.reset(charge).await);
        }
        outcome
    }

    /// The latest problem with a remote store, as seen by decisions.
    ///
    /// `None` for a store in this process, and while the store answers. The text is for operators.
    pub fn store_problem(&self) -> Option<String> {
        self.decider.store_problem()
    }

    /// The health of the store.
    pub fn store_report(&self) -> StoreReport {
        self.decider.report()
    }

    pub(crate) fn decide_charges(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Decision> + Send {
        self.decider.decide(charges, DecisionTerms::of(self.precision), |_| self.on_store_error)
    }
}

/// One line: the name and the limits, without the counters.
impl<S> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.policy.rules().iter();
        let limits: Vec<_> = rules.map(|rule| rule.limit.to_string()).collect();
        f.debug_struct("Limiter")
            .field("name", &self.policy.name())
            .field("limits", &limits)
            .finish_non_exhaustive()
    }
}
