//! The charges of a request: settled all together, or each descriptor's on its own.

use smallvec::SmallVec;
use tidegate::config::{DescriptorCharges, DescriptorOutcome};
use tidegate::{Cost, Decision, RequestCharges, Store, Verdict};

use super::request::{DescriptorAction, DescriptorRequest};
use crate::App;

/// What came of a request.
pub(super) struct EnvoyDecision<'p> {
    pub(super) groups: SmallVec<[EnvoyChargeGroup<'p>; 1]>,
}

/// Charges that were decided together.
pub(super) struct EnvoyChargeGroup<'p> {
    pub(super) action: DescriptorAction,
    pub(super) request_charges: RequestCharges<'p>,
    pub(super) decision: Decision,
    /// The numbers of its charges in the whole request.
    charge_indices: ChargeIndices,
}

type ChargeIndices = SmallVec<[usize; 4]>;

/// Decides. Peeks come before payments, and refunds come last: a denied request changes nothing,
/// unless `each` descriptor stands for itself.
pub(super) async fn decide<'p, S: Store>(
    app: &App<S>,
    owed: &DescriptorCharges<'p>,
    wishes: &[DescriptorRequest],
    each: bool,
) -> EnvoyDecision<'p> {
    let groups =
        if each { group_by_descriptor(owed, wishes) } else { group_by_action(owed, wishes) };
    let mut bills: SmallVec<[EnvoyChargeGroup<'p>; 1]> = SmallVec::new();
    for (kind, charges) in groups {
        let is_denied = !each && bills.iter().any(EnvoyChargeGroup::is_denied);
        let owed = owed.charges.subset(charges.iter().copied());
        let decision = match kind {
            // Another part has refused: nobody asks for a decision any more.
            _ if is_denied => Box::pin(app.limiter().peek(&owed)).await,
            DescriptorAction::Peek => Box::pin(app.peek(&owed)).await,
            DescriptorAction::Charge if each => Box::pin(charge_what_remains(app, &owed)).await,
            DescriptorAction::Charge => app.decide(&owed).await,
            DescriptorAction::Refund => Box::pin(refund_and_peek(app, &owed)).await,
        };
        bills.push(EnvoyChargeGroup {
            action: kind,
            request_charges: owed,
            decision,
            charge_indices: charges,
        });
    }
    EnvoyDecision { groups: bills }
}

/// Peeks, payments and refunds, each of them all or nothing. Without a charge, a payment of
/// nothing.
fn group_by_action(
    owed: &DescriptorCharges<'_>,
    wishes: &[DescriptorRequest],
) -> SmallVec<[(DescriptorAction, ChargeIndices); 4]> {
    let mut groups = SmallVec::new();
    for kind in [DescriptorAction::Peek, DescriptorAction::Charge, DescriptorAction::Refund] {
        let mine = wishes.iter().zip(&owed.statuses).filter(|(wish, _)| wish.action == kind);
        let charges: ChargeIndices = mine.flat_map(|(_, status)| charge_indices(status)).collect();
        if !charges.is_empty() || (kind == DescriptorAction::Charge && owed.charges.is_empty()) {
            groups.push((kind, charges));
        }
    }
    groups
}

fn group_by_descriptor(
    owed: &DescriptorCharges<'_>,
    wishes: &[DescriptorRequest],
) -> SmallVec<[(DescriptorAction, ChargeIndices); 4]> {
    let all = wishes.iter().zip(&owed.statuses);
    all.map(|(wish, status)| (wish.action, charge_indices(status).collect())).collect()
}

fn charge_indices(status: &DescriptorOutcome) -> std::ops::Range<usize> {
    match *status {
        DescriptorOutcome::Charged { first, count } => first..first.saturating_add(count),
        _ => 0..0,
    }
}

/// Charges that come after the fact, such as the length of an answer, cannot be refused: if they do
/// not fit, they take what is left, so that the next peek finds nothing.
async fn charge_what_remains<S: Store>(app: &App<S>, owed: &RequestCharges<'_>) -> Decision {
    let decision = app.decide(owed).await;
    let charges = owed.charges().iter().zip(decision.verdicts());
    let enforced = charges.filter(|(charge, _)| charge.rule().enforced);
    let left = enforced.map(|(_, verdict)| verdict.remaining).min().unwrap_or_default();
    match Cost::new(left) {
        Ok(rest) if !decision.is_allowed() && !rest.is_peek() => {
            let _ = app.limiter().decide(&owed.clone().with_cost(rest)).await;
            let after = app.limiter().peek(owed).await;
            if after.is_allowed() { decision } else { after }
        }
        _ => decision,
    }
}

/// A store that does not answer gives nothing back, which errs on the strict side.
async fn refund_and_peek<S: Store>(app: &App<S>, owed: &RequestCharges<'_>) -> Decision {
    let _ = app.limiter().refund(owed).await;
    app.limiter().peek(owed).await
}

impl<'p> EnvoyDecision<'p> {
    pub(super) fn is_denied(&self) -> bool {
        self.groups.iter().any(EnvoyChargeGroup::is_denied)
    }

    /// The bill that a descriptor's charges are on, and what it says about them.
    pub(super) fn verdicts(
        &self,
        first: usize,
        count: usize,
    ) -> Option<(&EnvoyChargeGroup<'p>, &[Verdict])> {
        self.groups.iter().find_map(|bill| {
            let at = bill.charge_indices.iter().position(|charge| *charge == first)?;
            let verdicts = bill.decision.verdicts().get(at..at.saturating_add(count));
            Some((bill, verdicts.unwrap_or_default()))
        })
    }

    /// The bill that speaks for all: the tightest of those that deny, or else of all.
    pub(super) fn tightest_group(&self) -> Option<&EnvoyChargeGroup<'p>> {
        self.groups.iter().reduce(|one, other| if other.is_tighter_than(one) { other } else { one })
    }
}

impl EnvoyChargeGroup<'_> {
    /// A refund is never refused.
    pub(super) fn is_denied(&self) -> bool {
        self.action != DescriptorAction::Refund && !self.decision.is_allowed()
    }

    /// Whether it is denied because of these charges of the request, if there are no verdicts.
    pub(super) fn is_denied_by(&self, first: usize, count: usize) -> bool {
        let at = self.charge_indices.iter().position(|charge| *charge == first);
        let counts =
            |at: usize| (at..at.saturating_add(count)).any(|index| self.decision.counts(index));
        self.is_denied() && at.is_some_and(counts)
    }

    fn is_tighter_than(&self, other: &Self) -> bool {
        match (self.is_denied(), other.is_denied()) {
            (false, false) | (true, true) => match (self.tightest(), other.tightest()) {
                (Some(mine), Some(theirs)) => mine.is_tighter_than(theirs),
                (mine, _) => mine.is_some(),
            },
            (mine, _) => mine,
        }
    }

    fn tightest(&self) -> Option<&Verdict> {
        self.decision.tightest_index().and_then(|index| self.decision.verdicts().get(index))
    }
}
