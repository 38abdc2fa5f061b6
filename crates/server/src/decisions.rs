//! Where all transports have their decisions made, so that each is counted and traced.

use tidegate::{AdHocLimit, Charge, Cost, Decision, OnStoreError, RequestCharges, Store, Verdict};
use tidegate_http::RateLimitAnswer;

use crate::App;
use crate::metrics::PolicyCounters;
use crate::trace::{self, DecisionTimer};

impl<S: Store> App<S> {
    /// Decides what is owed. Every transport asks here, so that all decisions are counted.
    pub async fn decide(&self, owed: &RequestCharges<'_>) -> Decision {
        // Not in a `match`, where the decision would take up space in the future.
        if let Some(decision) = self.try_decide(owed) {
            return decision;
        }
        self.decide_later(owed).await
    }

    /// The same if there is no need to wait and nothing is traced. `None` if that is not possible:
    /// then nothing was asked.
    pub(crate) fn try_decide(&self, owed: &RequestCharges<'_>) -> Option<Decision> {
        if self.tracer().is_some() {
            return None;
        }
        let watch = self.metrics().begin();
        let decision = self.limiter().try_decide(owed)?;
        self.metrics().observe(owed, &decision, watch);
        Some(decision)
    }

    /// The same, once it is known that waiting is necessary.
    pub(crate) async fn decide_later(&self, owed: &RequestCharges<'_>) -> Decision {
        let (watch, asked) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().decide(owed).await;
        self.metrics().observe(owed, &decision, watch);
        trace(asked, owed, &decision);
        decision
    }

    /// Whether anything is left of what is owed: for charges that cost nothing, which are counted
    /// as peeks.
    pub async fn peek(&self, owed: &RequestCharges<'_>) -> Decision {
        let (watch, asked) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().peek(owed).await;
        self.metrics().observe(owed, &decision, watch);
        trace(asked, owed, &decision);
        decision
    }

    /// Decides by a limit that came with the request. Without the store, this instance's share of
    /// it counts.
    pub async fn decide_ad_hoc(&self, asked: &AdHocLimit, cost: Cost) -> Decision {
        if let Some(decision) = self.try_decide_ad_hoc(asked, cost) {
            return decision;
        }
        self.decide_ad_hoc_later(asked, cost).await
    }

    /// The same if there is no need to wait and nothing is traced. `None` if that is not possible:
    /// then nothing was asked.
    pub(crate) fn try_decide_ad_hoc(&self, asked: &AdHocLimit, cost: Cost) -> Option<Decision> {
        if self.tracer().is_some() {
            return None;
        }
        let watch = self.metrics().begin();
        let decision = self.limiter().try_decide_charges(&[asked.charge(cost)])?;
        self.metrics().observe_ad_hoc(cost, &decision, watch);
        Some(decision)
    }

    /// Decides each charge by itself: of one policy, or of limits that came with requests. Returns
    /// whether it was done: not if something has to be waited for, or is traced.
    pub(crate) fn decide_each<'c>(
        &self,
        policy: Option<&PolicyCounters>,
        charges: impl IntoIterator<Item = Charge<'c>>,
        mut tell: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        if self.tracer().is_some() {
            return false;
        }
        let mut tally = self.metrics().tally(policy);
        let is_done = self.limiter().decide_each(charges, |charge, verdict| {
            tally.add(charge, verdict);
            tell(charge, verdict);
        });
        tally.finish();
        is_done
    }

    async fn decide_ad_hoc_later(&self, asked: &AdHocLimit, cost: Cost) -> Decision {
        let (watch, traced) = (self.metrics().begin(), self.decision_timer());
        let charge = [asked.charge(cost)];
        let decision = self.limiter().decide_charges(&charge, OnStoreError::Local).await;
        self.metrics().observe_ad_hoc(cost, &decision, watch);
        if let Some(traced) = traced {
            traced.finish(None, decision.reason(), &decision);
        }
        decision
    }

    /// For the span of the request at hand, if it has one.
    pub(crate) fn decision_timer(&self) -> Option<DecisionTimer> {
        self.tracer().and_then(|_| trace::decision_timer())
    }
}

pub(crate) fn trace(asked: Option<DecisionTimer>, owed: &RequestCharges<'_>, decision: &Decision) {
    if let Some(asked) = asked {
        let answer = RateLimitAnswer::of_charges(owed, decision);
        asked.finish(answer.policy(), answer.reason(), decision);
    }
}
