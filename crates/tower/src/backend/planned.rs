//! The limiter of a plan as a backend: it counts by attributes.

use std::sync::Arc;

use tidegate_http::RateLimitAnswer;
use tidegate_limiter::{Decision, PlanLimiter, Store};

use super::{BoxedFuture, ImmediateOutcome, LayerBackend, LayerCheck, LayerDecision, LayerSubject};
use crate::RequestHead;
use crate::attributes::attributes;
use crate::config::LayerConfig;

impl<S: Store + 'static> LayerBackend for PlanLimiter<S> {
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let plan = self.plan();
        let attributes = match attributes(&plan, head, config) {
            Ok(attributes) => attributes,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let subject = LayerSubject::Attributes(plan, attributes);
        let check = LayerCheck::new(subject, config.cost_of(head), config);
        let decision = check.charges().and_then(|charges| {
            let decision = self.try_decide(&charges)?;
            decided.response.describe(&RateLimitAnswer::of_charges(&charges, &decision), &check);
            Some(decision)
        });
        match decision {
            Some(decision) if decision.is_allowed() && config.is_silent() => ImmediateOutcome::Pass,
            Some(decision) => {
                decided.decision = decision;
                decided.check = check.kept_for_response();
                ImmediateOutcome::Decided
            }
            None => ImmediateOutcome::Pending(check),
        }
    }

    fn answer(self: Arc<Self>, check: LayerCheck) -> BoxedFuture<LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(charges) = check.charges() {
                decided.decision = self.decide(&charges).await;
                decided
                    .response
                    .describe(&RateLimitAnswer::of_charges(&charges, &decided.decision), &check);
            }
            decided.check = check.kept_for_response();
            decided
        })
    }

    fn undo(self: Arc<Self>, check: LayerCheck, decision: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(charges) = check.charges() {
                let _ = Self::undo(&self, &charges, &decision).await;
            }
        })
    }

    /// Blocks callers that have used up a policy with `block_for`. Limits that took nothing are left out:
    /// for them there was no request.
    fn confirm(self: Arc<Self>, check: LayerCheck, decision: Decision) -> Option<BoxedFuture<()>> {
        Some(Box::pin(async move {
            let Some(request) = check.charges() else { return };
            let charges = request.charges();
            let is_paid = |index: &usize| {
                let is_peek = charges.get(*index).is_none_or(|charge| charge.cost().is_peek());
                !is_peek && decision.has_paid(charges, *index)
            };
            let paid = request.subset((0..charges.len()).filter(is_paid));
            self.block_if_used_up(&paid).await;
        }))
    }
}
