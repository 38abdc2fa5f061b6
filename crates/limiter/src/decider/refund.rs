//! What was taken, given back; and what is known of it, forgotten.

use tidegate_core::Charge;
use tidegate_store::{Store, StoreError};

use super::Decider;
use crate::DecisionSource;

/// Who took what is to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefundTarget {
    Store,
    /// What decides while the store is away.
    Fallback,
    /// Nobody says which of them it was.
    Either,
}

impl RefundTarget {
    /// Of a decision.
    pub(crate) const fn of(source: DecisionSource) -> Self {
        match source {
            DecisionSource::Fallback => Self::Fallback,
            _ => Self::Store,
        }
    }
}

impl<S: Store> Decider<S> {
    /// Gives a charge's cost back to whoever took it. A store that does not answer gives nothing back:
    /// erring on the strict side.
    pub(crate) async fn refund(
        &self,
        charge: &Charge<'_>,
        payee: RefundTarget,
    ) -> Result<(), StoreError> {
        let outcome = match payee {
            RefundTarget::Fallback => Ok(()),
            RefundTarget::Store | RefundTarget::Either => self.store.refund(charge).await,
        };
        if payee != RefundTarget::Store {
            self.fallback.refund(charge);
        }
        self.forget_denial(charge);
        outcome
    }

    /// Forgets a charge's counter.
    pub(crate) async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let outcome = self.store.reset(charge).await;
        self.fallback.reset(charge);
        self.leases.forget(charge);
        self.forget_denial(charge);
        outcome
    }

    fn forget_denial(&self, charge: &Charge<'_>) {
        if let Some(denials) = &self.denials {
            denials.forget(charge);
        }
    }

    /// Somebody else has given something back, or set another limit.
    pub(crate) fn forget_denials(&self) {
        if let Some(denials) = &self.denials {
            denials.forget_all();
        }
    }
}
