//! The steps of a decision that sends more than one request to the store.

use tidegate_core::{Charge, Span};
use tidegate_policy::{OnStoreError, PlannedPolicy, RequestCharges};
use tidegate_store::{Stopwatch, Store};

use super::PlanLimiter;
use crate::decider::DecisionTerms;
use crate::{Decision, DecisionSource};

/// The progress of a decision in several steps, which share its deadline. Once the store has failed in
/// one step, the local fallback answers all later ones.
pub(super) struct DecisionSteps {
    stopwatch: Stopwatch,
    is_store_away: bool,
}

impl DecisionSteps {
    pub(super) fn begin() -> Self {
        Self { stopwatch: Stopwatch::start(), is_store_away: false }
    }

    /// Restarts the deadline, for a step that must not be lost even if the decision takes longer.
    pub(super) fn renew(&mut self) {
        self.stopwatch = Stopwatch::start();
    }

    fn terms(&self, terms: DecisionTerms) -> DecisionTerms {
        let spent = Span::from_micros(self.stopwatch.nanos() / 1_000);
        DecisionTerms { deadline: terms.deadline.map(|deadline| deadline.minus(spent)), ..terms }
    }
}

impl<S: Store> PlanLimiter<S> {
    /// Decides in one step of `steps`. `mode` is each charge's behaviour without a store.
    pub(super) async fn decide_step(
        &self,
        steps: &mut DecisionSteps,
        request: &RequestCharges<'_>,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        if steps.is_store_away {
            return self.decider.decide_without_store(charges, mode);
        }
        let decision =
            self.decider.decide(charges, steps.terms(self.terms_of(request)), mode).await;
        steps.is_store_away = decision.source() == DecisionSource::Fallback;
        decision
    }
}

/// The behaviour of a charge's policy without a store.
pub(super) fn on_store_error_of(request: &RequestCharges<'_>, index: usize) -> OnStoreError {
    request.policy(index).map_or(OnStoreError::default(), PlannedPolicy::on_store_error)
}
