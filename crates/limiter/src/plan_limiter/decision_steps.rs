//! A decision that asks the store more than once.

use tidegate_core::{Charge, Span};
use tidegate_policy::{OnStoreError, PlannedPolicy, RequestCharges};
use tidegate_store::{Stopwatch, Store};

use super::{PlanLimiter, terms_of};
use crate::decider::DecisionTerms;
use crate::{Decision, DecisionSource};

/// All steps of a decision share its deadline. Once the store has failed in one of them, it is not
/// asked in the next: its stand-in answers them all.
pub(super) struct DecisionSteps {
    watch: Stopwatch,
    is_store_away: bool,
}

impl DecisionSteps {
    pub(super) fn begin() -> Self {
        Self { watch: Stopwatch::start(), is_store_away: false }
    }

    /// For what must not be lost, even if the decision takes longer by it: as much time as there was
    /// in the beginning.
    pub(super) fn renew(&mut self) {
        self.watch = Stopwatch::start();
    }

    fn terms(&self, owed: &RequestCharges<'_>) -> DecisionTerms {
        let terms = terms_of(owed);
        let spent = Span::from_micros(self.watch.nanos() / 1_000);
        DecisionTerms { deadline: terms.deadline.map(|deadline| deadline.minus(spent)), ..terms }
    }
}

impl<S: Store> PlanLimiter<S> {
    /// Decides in one step of `steps`. `mode` says what each charge's policy does without a store.
    pub(super) async fn decide_step(
        &self,
        steps: &mut DecisionSteps,
        owed: &RequestCharges<'_>,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        if steps.is_store_away {
            return self.gate.decide_without_store(charges, mode);
        }
        let decision = self.gate.decide(charges, steps.terms(owed), mode).await;
        steps.is_store_away = decision.source() == DecisionSource::Fallback;
        decision
    }
}

/// What the policy of a charge does without a store.
pub(super) fn on_store_error_of(owed: &RequestCharges<'_>, index: usize) -> OnStoreError {
    owed.policy(index).map_or(OnStoreError::default(), PlannedPolicy::on_store_error)
}
