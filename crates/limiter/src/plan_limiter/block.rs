//! `block_for`: a caller that a policy denies stays blocked for a while.
//!
//! A block is a counter like any other, with a limit of its own, so that all instances of a store see it and it
//! ends by the store's clock.

use smallvec::SmallVec;
use tidegate_core::{Charge, ChargeNames, Cost, Fingerprint, Rule, Timestamp, Verdict};
use tidegate_policy::{BlockPenalty, OnStoreError, PlannedPolicy, RequestCharges};
use tidegate_store::{Store, Verdicts};

use super::PlanLimiter;
use super::decision_steps::{DecisionSteps, on_store_error_of};
use crate::peek_verdict::verdict_at_cost;
use crate::{Decision, DecisionSource};

/// The block of one caller by one policy of a request.
pub(super) struct CallerBlock<'p> {
    name: Option<&'p str>,
    mode: OnStoreError,
    /// Whether only the response decides if the request counts.
    is_decided_later: bool,
    /// The index of the policy's first charge.
    first: usize,
    subject: Fingerprint,
    rule: &'p Rule,
}

impl CallerBlock<'_> {
    /// Kept under Tidegate's own key name: the other limiters on a shared store have no blocks.
    pub(super) fn charge(&self, cost: Cost) -> Charge<'_> {
        Charge::new(self.subject, cost, self.rule).with_names(ChargeNames::own())
    }

    /// Whether this block denies the charge at `index`.
    fn applies_to(&self, request: &RequestCharges<'_>, index: usize) -> bool {
        request.policy(index).map(PlannedPolicy::name) == self.name
            && request.subject(index) == Some(self.subject)
    }
}

/// Whether a policy of this request has `block_for`.
pub(super) fn has_blocks(request: &RequestCharges<'_>) -> bool {
    (0..request.charges().len()).any(|index| block_of(request, index).is_some())
}

fn block_of<'p>(
    request: &RequestCharges<'p>,
    index: usize,
) -> Option<(&'p PlannedPolicy, &'p BlockPenalty)> {
    let is_enforced = request.charges().get(index)?.rule().enforced;
    let policy = request.policy(index).filter(|_| is_enforced)?;
    Some((policy, policy.block()?))
}

/// One block for each policy with `block_for` and each of its callers: a request with several
/// descriptors can have several callers.
pub(super) fn blocks_of<'p>(request: &RequestCharges<'p>) -> SmallVec<[CallerBlock<'p>; 1]> {
    let mut blocks: SmallVec<[CallerBlock<'p>; 1]> = SmallVec::new();
    for (first, charge) in request.charges().iter().enumerate() {
        let Some((policy, block)) = block_of(request, first) else { continue };
        let is_same = |other: &CallerBlock<'_>| {
            (other.rule.id, other.subject) == (block.rule.id, charge.subject())
        };
        if !blocks.iter().any(is_same) {
            blocks.push(CallerBlock {
                name: Some(policy.name()),
                mode: policy.on_store_error(),
                is_decided_later: request.is_counted_later() || policy.is_counted_later(),
                first,
                subject: charge.subject(),
                rule: &block.rule,
            });
        }
    }
    blocks
}

impl<S: Store> PlanLimiter<S> {
    /// The denial of a blocked caller: nothing is taken, and the wait is that of the block, or of a
    /// limit that denies for longer.
    ///
    /// A decision reads the block first and sets it last. Requests that arrive in between, at the
    /// moment of the first denial, are denied by the limit and not by the block.
    pub(super) async fn decide_if_blocked(
        &self,
        request: &RequestCharges<'_>,
        blocks: &[CallerBlock<'_>],
        steps: &mut DecisionSteps,
    ) -> Option<Decision> {
        // The blocks and the charges together, so that the deny cache can remember them as one denial.
        let whole: SmallVec<[Charge<'_>; 4]> = blocks
            .iter()
            .map(|block| block.charge(Cost::ONE))
            .chain(request.named_charges())
            .collect();
        let recalled = self.decider.recall(&whole);
        if let Some((Some(verdicts), _)) = &recalled {
            let (block_verdicts, rest) = verdicts.split_at(blocks.len().min(verdicts.len()));
            let peeked =
                Decision::of_charges(request.charges(), DecisionSource::DenyCache, |out| {
                    out.extend_from_slice(rest);
                    true
                });
            return Some(blocked(request, blocks, block_verdicts, peeked));
        }
        let mut verdicts = Verdicts::new();
        for block in blocks {
            verdicts.push(self.peek_block(request, block, steps).await);
        }
        if verdicts.iter().all(|verdict| verdict.allowed) {
            return None;
        }
        // Peeks take nothing even if a block has ended by now, and the remembered verdicts hold for
        // every cost.
        let peeks: SmallVec<[Charge<'_>; 4]> =
            request.named_charges().iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let peeked = self
            .decide_step(steps, request, &peeks, |index| on_store_error_of(request, index))
            .await;
        let block_verdicts = verdicts.clone();
        // The store would not repeat the verdicts of its local fallback.
        if peeked.source() != DecisionSource::Fallback
            && let Some((_, moment)) = recalled
        {
            verdicts.extend_from_slice(peeked.verdicts());
            self.decider.remember(&whole, &verdicts, moment);
        }
        Some(blocked(request, blocks, &block_verdicts, peeked))
    }

    /// The verdict of a block: denied until the block ends.
    async fn peek_block(
        &self,
        request: &RequestCharges<'_>,
        block: &CallerBlock<'_>,
        steps: &mut DecisionSteps,
    ) -> Verdict {
        let charge = [block.charge(Cost::PEEK)];
        let peeked = self.decide_step(steps, request, &charge, |_| block.mode).await;
        match peeked.verdicts().first() {
            Some(verdict) if verdict.remaining == 0 => {
                Verdict { allowed: false, retry_after: Some(verdict.reset_after), ..*verdict }
            }
            Some(verdict) => *verdict,
            None => block.rule.limit.probe_fresh(Cost::PEEK, Timestamp::ZERO),
        }
    }

    /// Blocks the callers of the policies whose limits denied, and adds the wait to the decision. A cost
    /// that never fits is a mistake, not an attempt. If the response decides what counts, the request is
    /// not an attempt yet either: see [`block_if_used_up`](Self::block_if_used_up).
    pub(super) async fn block(
        &self,
        request: &RequestCharges<'_>,
        blocks: &[CallerBlock<'_>],
        mut decision: Decision,
        steps: &mut DecisionSteps,
    ) -> Decision {
        for block in blocks.iter().filter(|block| !block.is_decided_later) {
            let denies = |index: usize| {
                let (verdict, charge) =
                    (decision.verdicts().get(index), request.charges().get(index));
                let is_denied =
                    verdict.is_some_and(|verdict| !verdict.allowed && !verdict.is_hopeless());
                let is_counted =
                    charge.is_some_and(|charge| charge.rule().enforced && !charge.cost().is_peek());
                is_denied && is_counted && block.applies_to(request, index)
            };
            if !decision.is_allowed() && (0..request.charges().len()).any(denies) {
                self.set_block(request, block, steps).await;
                decision = decision.with_wait(block.first, block.rule.limit.period());
            }
        }
        decision
    }

    /// Blocks the callers of policies whose quota is used up. Called after a response was counted, for
    /// policies whose responses decide the cost or whether a request
    /// [counts](RequestCharges::counted_later). Units that other requests hold meanwhile count as used.
    pub async fn block_if_used_up(&self, request: &RequestCharges<'_>) {
        let blocks = blocks_of(request);
        if blocks.is_empty() {
            return;
        }
        let peeks: SmallVec<[Charge<'_>; 4]> =
            request.named_charges().iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let mut steps = DecisionSteps::begin();
        let peeked = self
            .decide_step(&mut steps, request, &peeks, |index| on_store_error_of(request, index))
            .await;
        let is_used_up = |index: &usize| {
            let verdict = peeked.verdicts().get(*index).filter(|_| peeked.counts(*index));
            verdict.is_some_and(|verdict| verdict.remaining == 0)
        };
        for block in &blocks {
            let mut held =
                (0..request.charges().len()).filter(|index| block.applies_to(request, *index));
            if held.any(|index| is_used_up(&index)) {
                self.set_block(request, block, &mut steps).await;
            }
        }
    }

    /// With a new deadline: otherwise a late decision would report a block that was never set.
    async fn set_block(
        &self,
        request: &RequestCharges<'_>,
        block: &CallerBlock<'_>,
        steps: &mut DecisionSteps,
    ) {
        steps.renew();
        let charge = [block.charge(Cost::ONE)];
        let _ = self.decide_step(steps, request, &charge, |_| block.mode).await;
    }
}

/// The denial of a blocked caller, from the verdicts of the blocks and a peek at the limits.
fn blocked(
    request: &RequestCharges<'_>,
    blocks: &[CallerBlock<'_>],
    block_verdicts: &[Verdict],
    peeked: Decision,
) -> Decision {
    let at_cost = |(index, (charge, verdict)): (usize, (&Charge<'_>, &Verdict))| {
        // A limit that fails open allows everything while the store is unavailable.
        let is_open = charge.rule().enforced && !peeked.counts(index);
        if is_open { *verdict } else { verdict_at_cost(charge, *verdict) }
    };
    let charges = request.charges().iter().zip(peeked.verdicts()).enumerate();
    let verdicts: Verdicts = charges.map(at_cost).collect();
    let mut decision = peeked.denied(verdicts);
    for (block, verdict) in blocks.iter().zip(block_verdicts) {
        let Some(wait) = verdict.retry_after.filter(|wait| !wait.is_zero()) else { continue };
        for index in (0..request.charges().len()).filter(|index| block.applies_to(request, *index))
        {
            decision = decision.blocked(index, wait);
        }
    }
    decision
}
