//! Decides an Envoy request: all descriptors together, or each descriptor separately.

use smallvec::SmallVec;
use tidegate::config::{DescriptorCharges, DescriptorOutcome};
use tidegate::{ChargeIntent, Decision, RequestCharges, Store, Verdict};

use super::request::{DescriptorAction, DescriptorRequest};
use crate::App;

/// The decision about a whole request, in one group or several.
pub(super) struct EnvoyDecision<'p> {
    pub(super) groups: SmallVec<[EnvoyChargeGroup<'p>; 1]>,
}

/// Charges that were decided together.
pub(super) struct EnvoyChargeGroup<'p> {
    pub(super) action: DescriptorAction,
    pub(super) request_charges: RequestCharges<'p>,
    pub(super) decision: Decision,
    /// The indices of these charges in the whole request.
    charge_indices: ChargeIndices,
}

type ChargeIndices = SmallVec<[usize; 4]>;

/// Decides a request. Peeks come before charges, and refunds come last, so that a denied request
/// changes nothing. With `each`, every descriptor is decided separately.
pub(super) async fn decide<'p, S: Store>(
    app: &App<S>,
    charges: &DescriptorCharges<'p>,
    requests: &[DescriptorRequest],
    each: bool,
) -> EnvoyDecision<'p> {
    let parts = if each {
        group_by_descriptor(charges, requests)
    } else {
        group_by_action(charges, requests)
    };
    let mut groups: SmallVec<[EnvoyChargeGroup<'p>; 1]> = SmallVec::new();
    for (action, charge_indices) in parts {
        let is_denied = !each && groups.iter().any(EnvoyChargeGroup::is_denied);
        let request_charges = charges.charges.subset(charge_indices.iter().copied());
        let decision = match action {
            // An earlier group is denied: this peek is only for the statuses, so it is not counted.
            _ if is_denied => peek_uncounted(app, &request_charges).await,
            DescriptorAction::Peek => app.decide(&request_charges, ChargeIntent::Peek).await,
            DescriptorAction::Charge if each => {
                Box::pin(charge_what_remains(app, &request_charges)).await
            }
            DescriptorAction::Charge => app.decide(&request_charges, ChargeIntent::Take).await,
            DescriptorAction::Refund => {
                // If the refund fails, the units stay charged, which errs on the strict side.
                let _ = app.limiter().refund(&request_charges).await;
                peek_uncounted(app, &request_charges).await
            }
        };
        groups.push(EnvoyChargeGroup { action, request_charges, decision, charge_indices });
    }
    EnvoyDecision { groups }
}

/// One group each for peeks, charges and refunds, and each group is all or nothing. A request without
/// any charge gets one empty `Charge` group, so that it still gets a decision.
fn group_by_action(
    charges: &DescriptorCharges<'_>,
    requests: &[DescriptorRequest],
) -> SmallVec<[(DescriptorAction, ChargeIndices); 4]> {
    let mut groups = SmallVec::new();
    for action in [DescriptorAction::Peek, DescriptorAction::Charge, DescriptorAction::Refund] {
        let all = requests.iter().zip(&charges.statuses);
        let members = all.filter(|(request, _)| request.action == action);
        let indices: ChargeIndices =
            members.flat_map(|(_, status)| charge_indices(status)).collect();
        if !indices.is_empty() || (action == DescriptorAction::Charge && charges.charges.is_empty())
        {
            groups.push((action, indices));
        }
    }
    groups
}

fn group_by_descriptor(
    charges: &DescriptorCharges<'_>,
    requests: &[DescriptorRequest],
) -> SmallVec<[(DescriptorAction, ChargeIndices); 4]> {
    let all = requests.iter().zip(&charges.statuses);
    all.map(|(request, status)| (request.action, charge_indices(status).collect())).collect()
}

fn charge_indices(status: &DescriptorOutcome) -> std::ops::Range<usize> {
    match *status {
        DescriptorOutcome::Charged { first, count } => first..first.saturating_add(count),
        _ => 0..0,
    }
}

/// A cost that is known only afterwards, such as the length of a response, cannot be refused. If it
/// exceeds what remains, it takes what remains, so that the next peek is denied.
async fn charge_what_remains<S: Store>(app: &App<S>, charges: &RequestCharges<'_>) -> Decision {
    let decision = app.decide(charges, ChargeIntent::TakeUpTo).await;
    if decision.largest_part().is_none() {
        return decision;
    }
    let after = peek_uncounted(app, charges).await;
    if after.is_allowed() { decision } else { after }
}

/// A peek for the statuses of an answer. Metrics do not count it, because the client did not ask for it.
async fn peek_uncounted<S: Store>(app: &App<S>, charges: &RequestCharges<'_>) -> Decision {
    Box::pin(app.limiter().decide(charges, ChargeIntent::Peek).into_future()).await
}

impl<'p> EnvoyDecision<'p> {
    pub(super) fn is_denied(&self) -> bool {
        self.groups.iter().any(EnvoyChargeGroup::is_denied)
    }

    /// The group that holds a descriptor's charges, and its verdicts about them.
    pub(super) fn verdicts(
        &self,
        first: usize,
        count: usize,
    ) -> Option<(&EnvoyChargeGroup<'p>, &[Verdict])> {
        self.groups.iter().find_map(|group| {
            let at = group.charge_indices.iter().position(|charge| *charge == first)?;
            let verdicts = group.decision.verdicts().get(at..at.saturating_add(count));
            Some((group, verdicts.unwrap_or_default()))
        })
    }

    /// The tightest denied group, or else the tightest group. The response headers describe it.
    pub(super) fn tightest_group(&self) -> Option<&EnvoyChargeGroup<'p>> {
        self.groups.iter().reduce(|one, other| if other.is_tighter_than(one) { other } else { one })
    }
}

impl EnvoyChargeGroup<'_> {
    /// A refund is never denied.
    pub(super) fn is_denied(&self) -> bool {
        self.action != DescriptorAction::Refund && !self.decision.is_allowed()
    }

    /// Whether these charges of the request are why the group is denied. For decisions without verdicts.
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
            (is_denied, _) => is_denied,
        }
    }

    fn tightest(&self) -> Option<&Verdict> {
        self.decision.tightest_index().and_then(|index| self.decision.verdicts().get(index))
    }
}
