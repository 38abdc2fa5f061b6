//! The limiter of a plan as a backend: it counts by attributes.

use std::sync::Arc;

use tidegate_http::RateLimitAnswer;
use tidegate_limiter::{ChargeIntent, Cost, Decision, PlanLimiter, Store};

use super::{
    BorrowedFuture, BoxedFuture, CostDifference, ImmediateOutcome, LayerBackend, LayerCheck,
    LayerDecision, LayerSubject, PreparedCheck,
};
use crate::RequestHead;
use crate::attributes::attributes;
use crate::config::LayerConfig;
use crate::plan_warnings::plan_warnings;

impl<S: Store + 'static> LayerBackend for PlanLimiter<S> {
    fn prepare(&self, head: &RequestHead<'_>, config: &LayerConfig) -> PreparedCheck {
        let plan = self.plan();
        let attributes = attributes(&plan, head, config)?;
        let subject = LayerSubject::Attributes(plan, attributes);
        Ok(Some(LayerCheck::new(subject, config.cost_of(head), config)))
    }

    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let check = match self.prepare(head, config) {
            Ok(Some(check)) => check,
            Ok(None) => return ImmediateOutcome::Pass,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let decision = check.charges().and_then(|charges| {
            let decision = self.decide(&charges, ChargeIntent::Take).ready()?;
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

    fn warnings(&self, config: &LayerConfig) -> Vec<String> {
        plan_warnings(&self.plan(), config, self.is_remote())
    }

    fn decide<'a>(&'a self, check: &'a LayerCheck) -> BorrowedFuture<'a, LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(charges) = check.charges() {
                decided.decision = Self::decide(self, &charges, ChargeIntent::Take).await;
                decided
                    .response
                    .describe(&RateLimitAnswer::of_charges(&charges, &decided.decision), check);
            }
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

    fn correct(
        self: Arc<Self>,
        check: LayerCheck,
        decision: Decision,
        cost: Cost,
    ) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(charges) = check.charges() {
                match check.difference_to(cost) {
                    CostDifference::None => {}
                    CostDifference::Less(unused) => {
                        let _ = Self::undo(&self, &charges.with_cost(unused), &decision).await;
                    }
                    CostDifference::More(extra) => {
                        let extra = charges.with_cost(extra);
                        let _ = Self::decide(&self, &extra, ChargeIntent::TakeUpTo).await;
                    }
                }
            }
            if let Some(confirmed) = self.confirm(check, decision) {
                confirmed.await;
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
