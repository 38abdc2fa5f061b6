//! The charges of a request: settled all together, or each descriptor's on its own.

use smallvec::SmallVec;
use tidegate::config::{DescriptorStatus, DescriptorsOwed};
use tidegate::{Cost, Decision, Owed, Store, Verdict};

use super::request::{Kind, Wish};
use crate::App;

/// What came of a request.
pub(super) struct Settled<'p> {
    pub(super) bills: SmallVec<[Bill<'p>; 1]>,
}

/// Charges that were decided together.
pub(super) struct Bill<'p> {
    pub(super) kind: Kind,
    pub(super) owed: Owed<'p>,
    pub(super) decision: Decision,
    /// The numbers of its charges in the whole request.
    charges: Numbers,
}

type Numbers = SmallVec<[usize; 4]>;

/// Decides. Peeks come before payments, and refunds come last: a denied request changes nothing,
/// unless `each` descriptor stands for itself.
pub(super) async fn settle<'p, S: Store>(
    app: &App<S>,
    owed: &DescriptorsOwed<'p>,
    wishes: &[Wish],
    each: bool,
) -> Settled<'p> {
    let groups = if each { one_by_one(owed, wishes) } else { together(owed, wishes) };
    let mut bills: SmallVec<[Bill<'p>; 1]> = SmallVec::new();
    for (kind, charges) in groups {
        let is_denied = !each && bills.iter().any(Bill::is_denied);
        let owed = owed.owed.part(charges.iter().copied());
        let decision = match kind {
            // Another part has refused: nobody asks for a decision any more.
            _ if is_denied => Box::pin(app.limiter().peek(&owed)).await,
            Kind::Look => Box::pin(app.peek(&owed)).await,
            Kind::Pay if each => Box::pin(pay_what_is_there(app, &owed)).await,
            Kind::Pay => app.settle(&owed).await,
            Kind::Return => Box::pin(give_back(app, &owed)).await,
        };
        bills.push(Bill { kind, owed, decision, charges });
    }
    Settled { bills }
}

/// Peeks, payments and refunds, each of them all or nothing. Without a charge, a payment of
/// nothing.
fn together(owed: &DescriptorsOwed<'_>, wishes: &[Wish]) -> SmallVec<[(Kind, Numbers); 4]> {
    let mut groups = SmallVec::new();
    for kind in [Kind::Look, Kind::Pay, Kind::Return] {
        let mine = wishes.iter().zip(&owed.statuses).filter(|(wish, _)| wish.kind == kind);
        let charges: Numbers = mine.flat_map(|(_, status)| numbers(status)).collect();
        if !charges.is_empty() || (kind == Kind::Pay && owed.owed.is_empty()) {
            groups.push((kind, charges));
        }
    }
    groups
}

fn one_by_one(owed: &DescriptorsOwed<'_>, wishes: &[Wish]) -> SmallVec<[(Kind, Numbers); 4]> {
    let all = wishes.iter().zip(&owed.statuses);
    all.map(|(wish, status)| (wish.kind, numbers(status).collect())).collect()
}

fn numbers(status: &DescriptorStatus) -> std::ops::Range<usize> {
    match *status {
        DescriptorStatus::Charged { first, count } => first..first.saturating_add(count),
        _ => 0..0,
    }
}

/// Charges that come after the fact, such as the length of an answer, cannot be refused: if they do
/// not fit, they take what is left, so that the next peek finds nothing.
async fn pay_what_is_there<S: Store>(app: &App<S>, owed: &Owed<'_>) -> Decision {
    let decision = app.settle(owed).await;
    let charges = owed.charges().iter().zip(decision.verdicts());
    let enforced = charges.filter(|(charge, _)| charge.rule().enforced);
    let left = enforced.map(|(_, verdict)| verdict.remaining).min().unwrap_or_default();
    match Cost::new(left) {
        Ok(rest) if !decision.is_allowed() && !rest.is_peek() => {
            let _ = app.limiter().settle(&owed.clone().costing(rest)).await;
            let after = app.limiter().peek(owed).await;
            if after.is_allowed() { decision } else { after }
        }
        _ => decision,
    }
}

/// A store that does not answer gives nothing back, which errs on the strict side.
async fn give_back<S: Store>(app: &App<S>, owed: &Owed<'_>) -> Decision {
    let _ = app.limiter().refund(owed).await;
    app.limiter().peek(owed).await
}

impl<'p> Settled<'p> {
    pub(super) fn is_denied(&self) -> bool {
        self.bills.iter().any(Bill::is_denied)
    }

    /// The bill that a descriptor's charges are on, and what it says about them.
    pub(super) fn verdicts(&self, first: usize, count: usize) -> Option<(&Bill<'p>, &[Verdict])> {
        self.bills.iter().find_map(|bill| {
            let at = bill.charges.iter().position(|charge| *charge == first)?;
            let verdicts = bill.decision.verdicts().get(at..at.saturating_add(count));
            Some((bill, verdicts.unwrap_or_default()))
        })
    }

    /// The bill that speaks for all: the tightest of those that deny, or else of all.
    pub(super) fn speaker(&self) -> Option<&Bill<'p>> {
        self.bills.iter().reduce(|one, other| if other.is_tighter_than(one) { other } else { one })
    }
}

impl Bill<'_> {
    /// A refund is never refused.
    pub(super) fn is_denied(&self) -> bool {
        self.kind != Kind::Return && !self.decision.is_allowed()
    }

    /// Whether it is denied because of these charges of the request, if there are no verdicts.
    pub(super) fn is_refused_by(&self, first: usize, count: usize) -> bool {
        let at = self.charges.iter().position(|charge| *charge == first);
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
