//! Decisions without a word to the store, and what has to be taken from it before.

use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Span, Timestamp, Verdict};
use tidegate_policy::OnStoreError;
use tidegate_store::{Stopwatch, Store, StoreError, Verdicts};

use super::{Gate, Terms, decided};
use crate::deny_cache::{DenyCache, Moment};
use crate::leases::{Asking, Bounds};
use crate::looked::at_its_cost;
use crate::{Decision, Source};

impl<S: Store> Gate<S> {
    /// What needs no store: a denial that it would repeat, and what was taken ahead.
    pub(super) fn known(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: Terms,
        now: Moment,
    ) -> Option<Decision> {
        if let Some((charge, _)) = self.leased(charges, terms)
            && let Some(verdict) = self.leases.spend(charge, now.at)
        {
            return Some(decided(charges, true, Source::Lease, Verdicts::from_iter([verdict])));
        }
        self.denied_before(denials, charges, terms, now)
    }

    /// A denial that the store would repeat.
    pub(super) fn denied_before(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: Terms,
        now: Moment,
    ) -> Option<Decision> {
        let verdicts = denials.recall(charges, now).filter(|_| !terms.exact)?;
        Some(decided(charges, false, Source::DenyCache, verdicts))
    }

    /// How the limits stand, for a request that can never pass. Whoever insists is told from memory.
    pub(super) async fn look_in_vain(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: Terms,
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        let asked = denials.moment(charges);
        if let Some(decision) = self.denied_before(denials, charges, terms, asked) {
            return decision;
        }
        let looks: SmallVec<[Charge<'_>; 4]> =
            charges.iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        let looked = self.ask_within(&looks, terms.deadline).await;
        let took = self.now().since(asked.at);
        match looked {
            Ok(looked) => {
                self.vitals.answered(took);
                let each = charges.iter().zip(looked.verdicts());
                let verdicts =
                    each.map(|(charge, verdict)| at_its_cost(charge, *verdict)).collect();
                denials.remember(charges, &verdicts, asked);
                decided(charges, false, Source::Store, verdicts)
            }
            Err(error) => self.failed(&error, took, charges, mode),
        }
    }

    /// Only one limit at a time is taken ahead: of several, what one has given would have to be
    /// given back where another denies.
    fn leased<'c, 'a>(
        &self,
        charges: &'c [Charge<'a>],
        terms: Terms,
    ) -> Option<(&'c Charge<'a>, Bounds)> {
        let ([charge], Some(max_over_permille)) = (charges, terms.leased) else { return None };
        Some((charge, Bounds { max_over_permille, nodes: self.fallback.nodes() }))
    }

    /// How to ask for a charge with a lease.
    pub(super) fn asking(
        &self,
        charges: &[Charge<'_>],
        terms: Terms,
        now: Timestamp,
    ) -> Option<Asking<'_>> {
        let (charge, bounds) = self.leased(charges, terms)?;
        self.leases.ask(charge, bounds, now)
    }

    /// Asks for more than is needed, and where there is not so much, for that.
    pub(super) async fn ask_ahead(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        terms: Terms,
        mut asking: Asking<'_>,
    ) -> Result<Decision, StoreError> {
        let watch = Stopwatch::start();
        let mut deadline = terms.deadline;
        loop {
            let amount = asking.amount();
            let other: Vec<_> = charges.iter().map(|charge| charge.with_cost(amount)).collect();
            let decision = self.ask_within(&other, deadline).await?;
            let Some(verdict) = decision.verdicts().first() else { return Ok(decision) };
            if decision.is_allowed() {
                asking.paid(verdict, denials.now());
                return Ok(decision);
            }
            if asking.less().is_none() {
                asking.refused(verdict);
                return Ok(decision);
            }
            let spent = Span::from_micros(watch.nanos() / 1_000);
            deadline = terms.deadline.map(|deadline| deadline.minus(spent));
        }
    }

    /// What remains is what the store has and what was taken from it.
    pub(super) fn told(
        &self,
        charges: &[Charge<'_>],
        terms: Terms,
        decision: Decision,
        now: Timestamp,
    ) -> Decision {
        let (Some((charge, bounds)), [verdict]) =
            (self.leased(charges, terms), decision.verdicts())
        else {
            return decision;
        };
        if decision.is_allowed() && !charge.cost().is_peek() {
            self.leases.saw(charge, bounds, verdict, now);
        }
        let remaining = verdict.remaining.saturating_add(self.leases.left(charge, now));
        let verdict = Verdict { remaining: remaining.min(verdict.limit), ..*verdict };
        decided(charges, decision.is_allowed(), Source::Store, Verdicts::from_iter([verdict]))
    }
}
