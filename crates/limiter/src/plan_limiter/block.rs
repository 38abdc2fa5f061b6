//! `block_for`: whoever is denied stays denied for a while.

use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Fingerprint, Rule, Timestamp, Verdict};
use tidegate_policy::{BlockPenalty, OnStoreError, PlannedPolicy, RequestCharges};
use tidegate_store::{Store, Verdicts};

use super::PlanLimiter;
use super::decision_steps::{DecisionSteps, on_store_error_of};
use crate::peek_verdict::verdict_at_cost;
use crate::{Decision, DecisionSource};

/// A policy of a request that blocks those whom it denies.
pub(super) struct CallerBlock<'p> {
    name: Option<&'p str>,
    mode: OnStoreError,
    /// Whether only the response tells if a request counts.
    is_decided_later: bool,
    /// The first of its charges.
    first: usize,
    subject: Fingerprint,
    rule: &'p Rule,
}

impl CallerBlock<'_> {
    /// By the store's own names: no other limiter knows what a block is.
    pub(super) fn charge(&self, cost: Cost) -> Charge<'_> {
        Charge::new(self.subject, cost, self.rule).kept_as("")
    }

    /// Whether it blocks the charge at `index`.
    fn applies_to(&self, owed: &RequestCharges<'_>, index: usize) -> bool {
        owed.policy(index).map(PlannedPolicy::name) == self.name
            && owed.subject(index) == Some(self.subject)
    }
}

/// Whether a policy of this request blocks anybody.
pub(super) fn has_blocks(owed: &RequestCharges<'_>) -> bool {
    (0..owed.charges().len()).any(|index| block_of(owed, index).is_some())
}

fn block_of<'p>(
    owed: &RequestCharges<'p>,
    index: usize,
) -> Option<(&'p PlannedPolicy, &'p BlockPenalty)> {
    let is_enforced = owed.charges().get(index)?.rule().enforced;
    let policy = owed.policy(index).filter(|_| is_enforced)?;
    Some((policy, policy.block()?))
}

/// One for each policy with `block_for`, and for each caller that it is about: a request of several
/// descriptors may be about several.
pub(super) fn blocks_of<'p>(owed: &RequestCharges<'p>) -> SmallVec<[CallerBlock<'p>; 1]> {
    let mut blocks: SmallVec<[CallerBlock<'p>; 1]> = SmallVec::new();
    for (first, charge) in owed.charges().iter().enumerate() {
        let Some((policy, block)) = block_of(owed, first) else { continue };
        let is_same = |other: &CallerBlock<'_>| {
            (other.rule.id, other.subject) == (block.rule.id, charge.subject())
        };
        if !blocks.iter().any(is_same) {
            blocks.push(CallerBlock {
                name: Some(policy.name()),
                mode: policy.on_store_error(),
                is_decided_later: owed.is_counted_later() || policy.response_cost().is_some(),
                first,
                subject: charge.subject(),
                rule: &block.rule,
            });
        }
    }
    blocks
}

impl<S: Store> PlanLimiter<S> {
    /// A denial for whoever is blocked: nothing is taken, and the wait is that of the block, or of
    /// a limit that would deny for longer.
    ///
    /// The block is looked at first, and set last. In between others may come: a few requests at
    /// the very moment of the first denial are denied by the limit and not by the block.
    pub(super) async fn decide_if_blocked(
        &self,
        owed: &RequestCharges<'_>,
        blocks: &[CallerBlock<'_>],
        steps: &mut DecisionSteps,
    ) -> Option<Decision> {
        // As one denial of all of it, which is remembered like any other.
        let whole: SmallVec<[Charge<'_>; 4]> = blocks
            .iter()
            .map(|block| block.charge(Cost::ONE))
            .chain(owed.named_charges())
            .collect();
        let recalled = self.gate.recall(&whole);
        if let Some((Some(verdicts), _)) = &recalled {
            let (of_blocks, rest) = verdicts.split_at(blocks.len().min(verdicts.len()));
            let looked = Decision::of_charges(owed.charges(), DecisionSource::DenyCache, |out| {
                out.extend_from_slice(rest);
                true
            });
            return Some(blocked(owed, blocks, of_blocks, looked));
        }
        let mut verdicts = Verdicts::new();
        for block in blocks {
            verdicts.push(self.peek_block(owed, block, steps).await);
        }
        if verdicts.iter().all(|verdict| verdict.allowed) {
            return None;
        }
        // Only looked at, so that nothing is taken even if a block is over by now; and what is
        // remembered of it holds for every cost.
        let peeks: SmallVec<[Charge<'_>; 4]> =
            owed.named_charges().iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let looked =
            self.decide_step(steps, owed, &peeks, |index| on_store_error_of(owed, index)).await;
        let of_blocks = verdicts.clone();
        // What stands in for the store knows nothing that the store would repeat.
        if looked.source() != DecisionSource::Fallback
            && let Some((_, asked)) = recalled
        {
            verdicts.extend_from_slice(looked.verdicts());
            self.gate.remember(&whole, &verdicts, asked);
        }
        Some(blocked(owed, blocks, &of_blocks, looked))
    }

    /// What a block says: denied, until it is over.
    async fn peek_block(
        &self,
        owed: &RequestCharges<'_>,
        block: &CallerBlock<'_>,
        steps: &mut DecisionSteps,
    ) -> Verdict {
        let charge = [block.charge(Cost::PEEK)];
        let looked = self.decide_step(steps, owed, &charge, |_| block.mode).await;
        match looked.verdicts().first() {
            Some(verdict) if verdict.remaining == 0 => {
                Verdict { allowed: false, retry_after: Some(verdict.reset_after), ..*verdict }
            }
            Some(verdict) => *verdict,
            None => block.rule.limit.probe_fresh(Cost::PEEK, Timestamp::ZERO),
        }
    }

    /// Blocks the callers of those policies whose limits denied, and says how long that takes. A
    /// cost that never fits is a mistake, and no attempt. Where only some responses count, what is
    /// taken before is no attempt yet either: see [`block_if_used_up`](Self::block_if_used_up).
    pub(super) async fn block(
        &self,
        owed: &RequestCharges<'_>,
        blocks: &[CallerBlock<'_>],
        mut decision: Decision,
        steps: &mut DecisionSteps,
    ) -> Decision {
        for block in blocks.iter().filter(|block| !block.is_decided_later) {
            let denies = |index: usize| {
                let (verdict, charge) = (decision.verdicts().get(index), owed.charges().get(index));
                let is_denied = verdict.is_some_and(|it| !it.allowed && !it.is_hopeless());
                let is_meant = charge.is_some_and(|it| it.rule().enforced && !it.cost().is_peek());
                is_denied && is_meant && block.applies_to(owed, index)
            };
            if !decision.is_allowed() && (0..owed.charges().len()).any(denies) {
                self.set_block(owed, block, steps).await;
                decision = decision.with_wait(block.first, block.rule.limit.period());
            }
        }
        decision
    }

    /// Blocks the callers of policies whose quota is used up by now: where only the response tells what
    /// a request costs, or whether it [counts](RequestCharges::counted_later), when one has been counted. What
    /// others have under way is part of what is used.
    pub async fn block_if_used_up(&self, owed: &RequestCharges<'_>) {
        let blocks = blocks_of(owed);
        if blocks.is_empty() {
            return;
        }
        let peeks: SmallVec<[Charge<'_>; 4]> =
            owed.named_charges().iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let mut steps = DecisionSteps::begin();
        let looked = self
            .decide_step(&mut steps, owed, &peeks, |index| on_store_error_of(owed, index))
            .await;
        let is_used_up = |index: &usize| {
            let verdict = looked.verdicts().get(*index).filter(|_| looked.counts(*index));
            verdict.is_some_and(|verdict| verdict.remaining == 0)
        };
        for block in &blocks {
            let mut held = (0..owed.charges().len()).filter(|index| block.applies_to(owed, *index));
            if held.any(|index| is_used_up(&index)) {
                self.set_block(owed, block, &mut steps).await;
            }
        }
    }

    /// A block that came too late for the deadline would be told and not be there.
    async fn set_block(
        &self,
        owed: &RequestCharges<'_>,
        block: &CallerBlock<'_>,
        steps: &mut DecisionSteps,
    ) {
        steps.renew();
        let charge = [block.charge(Cost::ONE)];
        let _ = self.decide_step(steps, owed, &charge, |_| block.mode).await;
    }
}

/// The decision for whoever is blocked, by what the blocks say and what was seen of the limits.
fn blocked(
    owed: &RequestCharges<'_>,
    blocks: &[CallerBlock<'_>],
    of_blocks: &[Verdict],
    looked: Decision,
) -> Decision {
    let judge = |(index, (charge, verdict)): (usize, (&Charge<'_>, &Verdict))| {
        // One that is open while the store is away lets everything pass.
        let is_open = charge.rule().enforced && !looked.counts(index);
        if is_open { *verdict } else { verdict_at_cost(charge, *verdict) }
    };
    let charges = owed.charges().iter().zip(looked.verdicts()).enumerate();
    let verdicts: Verdicts = charges.map(judge).collect();
    let mut decision = looked.denied(verdicts);
    for (block, verdict) in blocks.iter().zip(of_blocks) {
        let Some(wait) = verdict.retry_after.filter(|wait| !wait.is_zero()) else { continue };
        for index in (0..owed.charges().len()).filter(|index| block.applies_to(owed, *index)) {
            decision = decision.blocked(index, wait);
        }
    }
    decision
}
