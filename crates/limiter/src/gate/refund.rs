//! What was taken, given back; and what is known of it, forgotten.

use tidegate_core::Charge;
use tidegate_store::{Store, StoreError};

use super::Gate;
use crate::Source;

/// Who took what is to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payee {
    Store,
    /// What decides while the store is away.
    StandIn,
    /// Nobody says which of them it was.
    Either,
}

impl Payee {
    /// Of a decision.
    pub(crate) const fn of(source: Source) -> Self {
        match source {
            Source::Fallback => Self::StandIn,
            _ => Self::Store,
        }
    }
}

impl<S: Store> Gate<S> {
    /// Gives a charge's cost back to whoever took it. A store that does not answer gives nothing back:
    /// erring on the strict side.
    pub(crate) async fn refund(&self, charge: &Charge<'_>, payee: Payee) -> Result<(), StoreError> {
        let outcome = match payee {
            Payee::StandIn => Ok(()),
            Payee::Store | Payee::Either => self.store.refund(charge).await,
        };
        if payee != Payee::Store {
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
