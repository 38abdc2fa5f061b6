//! The decision functions of [`App`]. Every transport decides here, so that each decision is
//! counted in the metrics and traced.

use tidegate::{AdHocLimit, Charge, Cost, Decision, OnStoreError, RequestCharges, Store, Verdict};
use tidegate_http::RateLimitAnswer;

use crate::App;
use crate::service::metrics::PolicyCounters;
use crate::service::trace::{self, DecisionTimer};

impl<S: Store> App<S> {
    /// Decides about the charges of a request, and counts the decision.
    pub async fn decide(&self, charges: &RequestCharges<'_>) -> Decision {
        // Not in a `match`, which would store the decision in the future and enlarge it.
        if let Some(decision) = self.try_decide(charges) {
            return decision;
        }
        self.decide_later(charges).await
    }

    /// [`decide`](Self::decide) without waiting. `None` if the decision has to wait or to be
    /// traced: then nothing was charged.
    pub(crate) fn try_decide(&self, charges: &RequestCharges<'_>) -> Option<Decision> {
        if self.tracer().is_some() {
            return None;
        }
        let watch = self.metrics().begin();
        let decision = self.limiter().try_decide(charges)?;
        self.metrics().observe(charges, &decision, watch);
        Some(decision)
    }

    /// [`decide`](Self::decide) after [`try_decide`](Self::try_decide) has returned `None`.
    pub(crate) async fn decide_later(&self, charges: &RequestCharges<'_>) -> Decision {
        let (watch, timer) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().decide(charges).await;
        self.metrics().observe(charges, &decision, watch);
        trace(timer, charges, &decision);
        decision
    }

    /// Decides about charges with a cost of 0. Unlike [`decide`](Self::decide), this denies them if
    /// nothing remains of a limit. Counted as a peek.
    pub async fn peek(&self, charges: &RequestCharges<'_>) -> Decision {
        let (watch, timer) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().peek(charges).await;
        self.metrics().observe(charges, &decision, watch);
        trace(timer, charges, &decision);
        decision
    }

    /// Decides by a limit that came with the request. While the store is unavailable, this
    /// instance's share of the limit applies.
    pub async fn decide_ad_hoc(&self, limit: &AdHocLimit, cost: Cost) -> Decision {
        if let Some(decision) = self.try_decide_ad_hoc(limit, cost) {
            return decision;
        }
        self.decide_ad_hoc_later(limit, cost).await
    }

    /// [`decide_ad_hoc`](Self::decide_ad_hoc) without waiting. `None` if the decision has to wait
    /// or to be traced: then nothing was charged.
    pub(crate) fn try_decide_ad_hoc(&self, limit: &AdHocLimit, cost: Cost) -> Option<Decision> {
        if self.tracer().is_some() {
            return None;
        }
        let watch = self.metrics().begin();
        let decision = self.limiter().try_decide_charges(&[limit.charge(cost)])?;
        self.metrics().observe_ad_hoc(cost, &decision, watch);
        Some(decision)
    }

    /// Decides about each charge separately, without waiting. All charges belong to `policy`, or to
    /// limits that came with requests if it is `None`. Returns false if the decisions have to wait
    /// or to be traced: then nothing was charged.
    pub(crate) fn decide_each<'c>(
        &self,
        policy: Option<&PolicyCounters>,
        charges: impl IntoIterator<Item = Charge<'c>>,
        mut report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        if self.tracer().is_some() {
            return false;
        }
        let mut tally = self.metrics().tally(policy);
        let is_done = self.limiter().decide_each(charges, |charge, verdict| {
            tally.add(charge, verdict);
            report(charge, verdict);
        });
        tally.finish();
        is_done
    }

    async fn decide_ad_hoc_later(&self, limit: &AdHocLimit, cost: Cost) -> Decision {
        let (watch, timer) = (self.metrics().begin(), self.decision_timer());
        let charge = [limit.charge(cost)];
        let decision = self.limiter().decide_charges(&charge, OnStoreError::Local).await;
        self.metrics().observe_ad_hoc(cost, &decision, watch);
        if let Some(timer) = timer {
            timer.finish(None, decision.reason(), &decision);
        }
        decision
    }

    /// Starts timing a decision for the span of the current request, if it has one.
    pub(crate) fn decision_timer(&self) -> Option<DecisionTimer> {
        self.tracer().and_then(|_| trace::decision_timer())
    }
}

/// Adds a decision to the span of its request, if the request is traced.
pub(crate) fn trace(
    timer: Option<DecisionTimer>,
    charges: &RequestCharges<'_>,
    decision: &Decision,
) {
    if let Some(timer) = timer {
        let answer = RateLimitAnswer::of_charges(charges, decision);
        timer.finish(answer.policy(), answer.reason(), decision);
    }
}
