//! Decisions without a word to the store, and what has to be taken from it before.

use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Span, Timestamp, Verdict};
use tidegate_policy::OnStoreError;
use tidegate_store::{Stopwatch, Store, StoreError, Verdicts};

use super::{Decider, DecisionTerms, decision_of};
use crate::deny_cache::{DenyCache, DenyCacheMoment};
use crate::lease_table::{LeaseBounds, LeaseRequest};
use crate::peek_verdict::verdict_at_cost;
use crate::{Decision, DecisionSource};

impl<S: Store> Decider<S> {
    /// What needs no store: a denial that it would repeat, and what was taken ahead.
    pub(super) fn cached_decision(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        now: DenyCacheMoment,
    ) -> Option<Decision> {
        if let Some((charge, _)) = self.leasable_charge(charges, terms)
            && let Some(verdict) = self.leases.spend(charge, now.at)
        {
            return Some(decision_of(
                charges,
                true,
                DecisionSource::Lease,
                Verdicts::from_iter([verdict]),
            ));
        }
        self.cached_denial(denials, charges, terms, now)
    }

    /// A denial that the store would repeat.
    pub(super) fn cached_denial(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        now: DenyCacheMoment,
    ) -> Option<Decision> {
        let verdicts = denials.recall(charges, now).filter(|_| !terms.exact)?;
        Some(decision_of(charges, false, DecisionSource::DenyCache, verdicts))
    }

    /// How the limits stand, for a request that can never pass. Whoever insists is told from memory.
    pub(super) async fn peek_infeasible(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        let asked = denials.moment(charges);
        if let Some(decision) = self.cached_denial(denials, charges, terms, asked) {
            return decision;
        }
        let looks: SmallVec<[Charge<'_>; 4]> =
            charges.iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let looked = self.ask_within(&looks, terms.deadline).await;
        let took = self.now().since(asked.at);
        match looked {
            Ok(looked) => {
                self.vitals.record_answer(took);
                let each = charges.iter().zip(looked.verdicts());
                let verdicts =
                    each.map(|(charge, verdict)| verdict_at_cost(charge, *verdict)).collect();
                denials.remember(charges, &verdicts, asked);
                decision_of(charges, false, DecisionSource::Store, verdicts)
            }
            Err(error) => self.decide_after_failure(&error, took, charges, mode),
        }
    }

    /// Only one limit at a time is taken ahead: of several, what one has given would have to be
    /// given back where another denies.
    fn leasable_charge<'c, 'a>(
        &self,
        charges: &'c [Charge<'a>],
        terms: DecisionTerms,
    ) -> Option<(&'c Charge<'a>, LeaseBounds)> {
        let ([charge], Some(max_over_permille)) = (charges, terms.leased) else { return None };
        Some((charge, LeaseBounds { max_over_permille, nodes: self.fallback.nodes() }))
    }

    /// How to ask for a charge with a lease.
    pub(super) fn lease_request(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        now: Timestamp,
    ) -> Option<LeaseRequest<'_>> {
        let (charge, bounds) = self.leasable_charge(charges, terms)?;
        self.leases.request_lease(charge, bounds, now)
    }

    /// Asks for more than is needed, and where there is not so much, for that.
    pub(super) async fn ask_with_lease(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mut asking: LeaseRequest<'_>,
    ) -> Result<Decision, StoreError> {
        let watch = Stopwatch::start();
        let mut deadline = terms.deadline;
        loop {
            let amount = asking.amount();
            let other: Vec<_> = charges.iter().map(|charge| charge.with_cost(amount)).collect();
            let decision = self.ask_within(&other, deadline).await?;
            let Some(verdict) = decision.verdicts().first() else { return Ok(decision) };
            if decision.is_allowed() {
                asking.record_paid(verdict, denials.now());
                return Ok(decision);
            }
            if asking.ask_for_less().is_none() {
                asking.record_denied(verdict);
                return Ok(decision);
            }
            let spent = Span::from_micros(watch.nanos() / 1_000);
            deadline = terms.deadline.map(|deadline| deadline.minus(spent));
        }
    }

    /// What remains is what the store has and what was taken from it.
    pub(super) fn with_leased_remaining(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        decision: Decision,
        now: Timestamp,
    ) -> Decision {
        let (Some((charge, bounds)), [verdict]) =
            (self.leasable_charge(charges, terms), decision.verdicts())
        else {
            return decision;
        };
        if decision.is_allowed() && !charge.cost().is_peek() {
            self.leases.record_verdict(charge, bounds, verdict, now);
        }
        let remaining = verdict.remaining.saturating_add(self.leases.units_left(charge, now));
        let verdict = Verdict { remaining: remaining.min(verdict.limit), ..*verdict };
        decision_of(
            charges,
            decision.is_allowed(),
            DecisionSource::Store,
            Verdicts::from_iter([verdict]),
        )
    }
}
