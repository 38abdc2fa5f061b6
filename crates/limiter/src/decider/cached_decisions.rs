//! Decisions without the store: from cached denials, and from leases that are taken in advance.
//!
//! Such decisions need no store. They are exact all the same: a denial is only repeated while the store itself
//! would repeat it, and a lease only spends what the store has already counted.

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
    /// A decision that needs no store: paid from a lease, or a denial that the store would repeat.
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

    /// Denies a request that can never pass, with the current state of its limits. Repeated requests are
    /// denied from the deny cache.
    pub(super) async fn peek_infeasible(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mode: impl Fn(usize) -> OnStoreError + Send,
        moment: DenyCacheMoment,
    ) -> Decision {
        let peeks: SmallVec<[Charge<'_>; 4]> =
            charges.iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let peeked = self.ask_within(&peeks, terms.deadline).await;
        let took = self.now().since(moment.at);
        match peeked {
            Ok(peeked) => {
                self.vitals.record_answer(took);
                let each = charges.iter().zip(peeked.verdicts());
                let verdicts =
                    each.map(|(charge, verdict)| verdict_at_cost(charge, *verdict)).collect();
                denials.remember(charges, &verdicts, moment);
                decision_of(charges, false, DecisionSource::Store, verdicts)
            }
            Err(error) => self.decide_after_failure(&error, took, charges, mode),
        }
    }

    /// The charge that can be paid from a lease. Only requests with a single charge use leases: with
    /// several, one lease would have to be refunded whenever another limit denies.
    fn leasable_charge<'c, 'a>(
        &self,
        charges: &'c [Charge<'a>],
        terms: DecisionTerms,
    ) -> Option<(&'c Charge<'a>, LeaseBounds)> {
        let ([charge], Some(max_over_permille)) = (charges, terms.leased) else { return None };
        Some((charge, LeaseBounds { max_over_permille, nodes: self.fallback.nodes() }))
    }

    /// The request for a charge and a lease together, if a lease is worthwhile.
    pub(super) fn lease_request(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        now: Timestamp,
    ) -> Option<LeaseRequest<'_>> {
        let (charge, bounds) = self.leasable_charge(charges, terms)?;
        self.leases.request_lease(charge, bounds, now)
    }

    /// Asks for a lease on top of the cost, and if there is not enough left, for the cost alone.
    pub(super) async fn ask_with_lease(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mut request: LeaseRequest<'_>,
    ) -> Result<Decision, StoreError> {
        let stopwatch = Stopwatch::start();
        let mut deadline = terms.deadline;
        loop {
            let amount = request.amount();
            let enlarged: Vec<_> = charges.iter().map(|charge| charge.with_cost(amount)).collect();
            let decision = self.ask_within(&enlarged, deadline).await?;
            let Some(verdict) = decision.verdicts().first() else { return Ok(decision) };
            if decision.is_allowed() {
                request.record_paid(verdict, denials.now());
                return Ok(decision);
            }
            if request.ask_for_less().is_none() {
                request.record_denied(verdict);
                return Ok(decision);
            }
            let spent = Span::from_micros(stopwatch.nanos() / 1_000);
            deadline = terms.deadline.map(|deadline| deadline.minus(spent));
        }
    }

    /// Adds the unspent lease to what remains in the store.
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
