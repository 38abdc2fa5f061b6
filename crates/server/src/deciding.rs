//! Where all transports have their decisions made, so that each is counted and traced.

use tidegate::{AdHoc, Charge, Cost, Decision, OnStoreError, Owed, Store, Verdict};
use tidegate_http::Answer;

use crate::App;
use crate::metrics::PolicyCounters;
use crate::trace::{self, Asked};

impl<S: Store> App<S> {
    /// Decides what is owed. Every transport asks here, so that all decisions are counted.
    pub async fn settle(&self, owed: &Owed<'_>) -> Decision {
        // Not in a `match`, where the decision would take up space in the future.
        if let Some(decision) = self.settle_at_once(owed) {
            return decision;
        }
        self.settle_later(owed).await
    }

    /// The same if there is no need to wait and nothing is traced. `None` if that is not possible:
    /// then nothing was asked.
    pub(crate) fn settle_at_once(&self, owed: &Owed<'_>) -> Option<Decision> {
        if self.tracer().is_some() {
            return None;
        }
        let watch = self.metrics().begin();
        let decision = self.limiter().settle_at_once(owed)?;
        self.metrics().observe(owed, &decision, watch);
        Some(decision)
    }

    /// The same, once it is known that waiting is necessary.
    pub(crate) async fn settle_later(&self, owed: &Owed<'_>) -> Decision {
        let (watch, asked) = (self.metrics().begin(), self.asked());
        let decision = self.limiter().settle(owed).await;
        self.metrics().observe(owed, &decision, watch);
        trace(asked, owed, &decision);
        decision
    }

    /// Whether anything is left of what is owed: for charges that cost nothing, which are counted
    /// as peeks.
    pub async fn peek(&self, owed: &Owed<'_>) -> Decision {
        let (watch, asked) = (self.metrics().begin(), self.asked());
        let decision = self.limiter().peek(owed).await;
        self.metrics().observe(owed, &decision, watch);
        trace(asked, owed, &decision);
        decision
    }

    /// Decides by a limit that came with the request. Without the store, this instance's share of
    /// it counts.
    pub async fn settle_ad_hoc(&self, asked: &AdHoc, cost: Cost) -> Decision {
        if let Some(decision) = self.settle_ad_hoc_at_once(asked, cost) {
            return decision;
        }
        self.settle_ad_hoc_later(asked, cost).await
    }

    /// The same if there is no need to wait and nothing is traced. `None` if that is not possible:
    /// then nothing was asked.
    pub(crate) fn settle_ad_hoc_at_once(&self, asked: &AdHoc, cost: Cost) -> Option<Decision> {
        if self.tracer().is_some() {
            return None;
        }
        let watch = self.metrics().begin();
        let decision = self.limiter().settle_charges_at_once(&[asked.charge(cost)])?;
        self.metrics().observe_ad_hoc(cost, &decision, watch);
        Some(decision)
    }

    /// Decides each charge by itself: of one policy, or of limits that came with requests. Returns
    /// whether it was done: not if something has to be waited for, or is traced.
    pub(crate) fn settle_each_at_once<'c>(
        &self,
        policy: Option<&PolicyCounters>,
        charges: impl IntoIterator<Item = Charge<'c>>,
        mut tell: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        if self.tracer().is_some() {
            return false;
        }
        let mut tally = self.metrics().tally(policy);
        let is_done = self.limiter().settle_each_at_once(charges, |charge, verdict| {
            tally.add(charge, verdict);
            tell(charge, verdict);
        });
        tally.finish();
        is_done
    }

    async fn settle_ad_hoc_later(&self, asked: &AdHoc, cost: Cost) -> Decision {
        let (watch, traced) = (self.metrics().begin(), self.asked());
        let charge = [asked.charge(cost)];
        let decision = self.limiter().settle_charges(&charge, OnStoreError::Local).await;
        self.metrics().observe_ad_hoc(cost, &decision, watch);
        if let Some(traced) = traced {
            traced.decided(None, decision.reason(), &decision);
        }
        decision
    }

    /// For the span of the request at hand, if it has one.
    pub(crate) fn asked(&self) -> Option<Asked> {
        self.tracer().and_then(|_| trace::asked())
    }
}

pub(crate) fn trace(asked: Option<Asked>, owed: &Owed<'_>, decision: &Decision) {
    if let Some(asked) = asked {
        let answer = Answer::of_owed(owed, decision);
        asked.decided(answer.policy(), answer.reason(), decision);
    }
}
