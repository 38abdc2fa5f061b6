//! Any limiter of the program as a backend: it counts by a key, and its limits are not known.

use std::sync::Arc;

use tidegate_http::RateLimitAnswer;
use tidegate_limiter::{AnyLimiter, Cost, Decision, RateLimiter};

use super::{
    BorrowedFuture, BoxedFuture, CostDifference, ImmediateOutcome, LayerBackend, LayerCheck,
    LayerDecision, LayerSubject, PreparedCheck,
};
use crate::RequestHead;
use crate::config::LayerConfig;

/// A backend whose limits are its own affair: responses have no `RateLimit` fields, only `Retry-After`.
pub(super) struct OpenBackend {
    limiter: AnyLimiter,
}

impl OpenBackend {
    pub(super) const fn new(limiter: AnyLimiter) -> Self {
        Self { limiter }
    }

    fn describe(decided: &mut LayerDecision, check: &LayerCheck) {
        decided.response.describe(&RateLimitAnswer::of_decision(&decided.decision), check);
    }
}

impl LayerBackend for OpenBackend {
    fn prepare(&self, head: &RequestHead<'_>, config: &LayerConfig) -> PreparedCheck {
        let Some(key) = config.key.owned_key(config.key_context(head))? else { return Ok(None) };
        Ok(Some(LayerCheck::new(LayerSubject::Own(key), config.cost_of(head), config)))
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
        let decision = check.own_key().and_then(|key| self.limiter.try_decide(key, check.cost));
        let Some(decision) = decision else { return ImmediateOutcome::Pending(check) };
        decided.decision = decision;
        Self::describe(decided, &check);
        decided.check = check.kept_for_response();
        ImmediateOutcome::Decided
    }

    fn decide<'a>(&'a self, check: &'a LayerCheck) -> BorrowedFuture<'a, LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(key) = check.own_key() {
                decided.decision = self.limiter.decide(key, check.cost).await;
                Self::describe(&mut decided, check);
            }
            decided
        })
    }

    fn undo(self: Arc<Self>, check: LayerCheck, _: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(key) = check.own_key() {
                self.limiter.give_back(key, check.cost).await;
            }
        })
    }

    fn correct(self: Arc<Self>, check: LayerCheck, _: Decision, cost: Cost) -> BoxedFuture<()> {
        Box::pin(async move {
            let Some(key) = check.own_key() else { return };
            match check.difference_to(cost) {
                CostDifference::None => {}
                CostDifference::Less(unused) => self.limiter.give_back(key, unused).await,
                CostDifference::More(extra) => {
                    let _ = self.limiter.decide(key, extra).await;
                }
            }
        })
    }

    fn confirm(self: Arc<Self>, _: LayerCheck, _: Decision) -> Option<BoxedFuture<()>> {
        None
    }
}
