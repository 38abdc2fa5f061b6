//! Gives units back, resets counters, and forgets the denials that no longer hold.

use tidegate_core::Charge;
use tidegate_store::{Store, StoreError};

use super::Decider;
use crate::DecisionSource;

/// Where the units were taken from that are to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefundTarget {
    Store,
    /// The local fallback, which decides while the store is unavailable.
    Fallback,
    /// Unknown: both are tried.
    Either,
}

impl RefundTarget {
    /// The target of a refund for a decision from `source`.
    pub(crate) const fn of(source: DecisionSource) -> Self {
        match source {
            DecisionSource::Fallback => Self::Fallback,
            _ => Self::Store,
        }
    }
}

impl<S: Store> Decider<S> {
    /// Gives a charge's cost back to `target`. If the store does not answer, nothing is given back: the
    /// limit stays too strict, not too lenient.
    pub(crate) async fn refund(
        &self,
        charge: &Charge<'_>,
        target: RefundTarget,
    ) -> Result<(), StoreError> {
        let outcome = match target {
            RefundTarget::Fallback => Ok(()),
            RefundTarget::Store | RefundTarget::Either => self.store.refund(charge).await,
        };
        if target != RefundTarget::Store {
            self.fallback.refund(charge);
        }
        self.forget_denial(charge);
        outcome
    }

    /// Deletes a charge's counter.
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
}
