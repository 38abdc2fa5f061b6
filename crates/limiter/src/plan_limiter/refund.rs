//! What was taken is given back, and what was counted forgotten.

use tidegate_core::Cost;
use tidegate_policy::RequestCharges;
use tidegate_store::{Store, StoreError};

use super::PlanLimiter;
use super::block::blocks_of;
use crate::Decision;
use crate::decider::RefundTarget;

impl<S: Store> PlanLimiter<S> {
    /// Gives back what is owed: it was taken, and then not used. See [`Limiter::refund`]. Says what
    /// went wrong first, and gives back the rest all the same.
    ///
    /// [`Limiter::refund`]: crate::Limiter::refund
    pub async fn refund(&self, owed: &RequestCharges<'_>) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for charge in &owed.named_charges() {
            outcome = outcome.and(self.gate.refund(charge, RefundTarget::Either).await);
        }
        outcome
    }

    /// Undoes a decision: what it took goes back to where it was taken from (the store, or its
    /// stand-in), and a shadow limit that had no room gets nothing. `owed` is what was decided about,
    /// at the cost to give back.
    pub async fn undo(
        &self,
        owed: &RequestCharges<'_>,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        self.undo_where(owed, decision, |_| true).await
    }

    /// The same for the limits of one policy.
    pub async fn undo_for(
        &self,
        policy: &str,
        owed: &RequestCharges<'_>,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        self.undo_where(owed, decision, |index| owed.policy_name(index) == Some(policy)).await
    }

    async fn undo_where(
        &self,
        owed: &RequestCharges<'_>,
        decision: &Decision,
        is_meant: impl Fn(usize) -> bool,
    ) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for (index, charge) in owed.named_charges().iter().enumerate() {
            if decision.has_paid(owed.charges(), index) && is_meant(index) {
                let payee = RefundTarget::of(decision.source());
                outcome = outcome.and(self.gate.refund(charge, payee).await);
            }
        }
        outcome
    }

    /// Forgets the counters of what is owed, and lifts the blocks: the caller has a full quota again.
    /// Returns the first error, after trying all of them.
    pub async fn reset(&self, owed: &RequestCharges<'_>) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        for charge in &owed.named_charges() {
            outcome = outcome.and(self.gate.reset(charge).await);
        }
        for block in &blocks_of(owed) {
            outcome = outcome.and(self.gate.reset(&block.charge(Cost::ONE)).await);
        }
        outcome
    }
}
