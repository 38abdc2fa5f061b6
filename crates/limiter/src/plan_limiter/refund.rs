//! Gives back what a plan's decisions took, and resets counters.

use tidegate_core::Cost;
use tidegate_policy::RequestCharges;
use tidegate_store::{Store, StoreError};

use super::PlanLimiter;
use super::block::blocks_of;
use crate::Decision;
use crate::decider::RefundTarget;

impl<S: Store> PlanLimiter<S> {
    /// Gives back the charges of a request: they were taken, and then not used. See [`Limiter::refund`].
    /// Returns the first error, after trying all charges.
    ///
    /// [`Limiter::refund`]: crate::Limiter::refund
    pub async fn refund(&self, request: &RequestCharges<'_>) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for charge in &request.named_charges() {
            outcome = outcome.and(self.decider.refund(charge, RefundTarget::Either).await);
        }
        outcome
    }

    /// Undoes a decision: the units go back to where they were taken from (the store, or its local
    /// fallback), and a shadow limit that had no room gets nothing. `request` has the charges that were
    /// decided about, at the cost to give back.
    ///
    /// Use it for a request that was admitted and then did not happen.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store does not answer: the first of them, after all charges were tried.
    pub async fn undo(
        &self,
        request: &RequestCharges<'_>,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        self.undo_where(request, decision, |_| true).await
    }

    /// [`undo`](Self::undo) for the limits of one policy.
    pub async fn undo_for(
        &self,
        policy: &str,
        request: &RequestCharges<'_>,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        self.undo_where(request, decision, |index| request.policy_name(index) == Some(policy)).await
    }

    async fn undo_where(
        &self,
        request: &RequestCharges<'_>,
        decision: &Decision,
        includes: impl Fn(usize) -> bool,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for (index, charge) in request.named_charges().iter().enumerate() {
            if decision.has_paid(request.charges(), index) && includes(index) {
                let target = RefundTarget::of(decision.source());
                outcome = outcome.and(self.decider.refund(charge, target).await);
            }
        }
        outcome
    }

    /// Deletes the counters of a request's charges and lifts its blocks: the caller has a full quota
    /// again. Returns the first error, after trying all charges.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{Cost, MemoryStore, PlanLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
    /// let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
    /// let request = [("user", "42")];
    /// assert!(limiter.check(&request, Cost::ONE).await.is_allowed());
    /// limiter.reset(&limiter.plan().charges(&request, Cost::ONE)).await?;
    /// assert!(limiter.check(&request, Cost::ONE).await.is_allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reset(&self, request: &RequestCharges<'_>) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for charge in &request.named_charges() {
            outcome = outcome.and(self.decider.reset(charge).await);
        }
        for block in &blocks_of(request) {
            outcome = outcome.and(self.decider.reset(&block.charge(Cost::ONE)).await);
        }
        outcome
    }
}
