//! Decides about charges: by the store, by the caches that spare it, or by its local fallback.
//!
//! The order matters: what can be answered without the store comes first (a limit that can never pass, a
//! remembered denial, a lease), then the store is asked, and if it fails, each policy's behaviour without
//! the store decides. Whoever adds a shortcut adds it here, and nowhere else.

mod cached_decisions;
mod feasibility;
#[cfg(feature = "files")]
mod plan_support;
mod refund;
mod without_store;

use tidegate_core::{Charge, Span, Timestamp};
use tidegate_policy::{OnStoreError, Precision};
use tidegate_store::{Store, StoreError, StoreErrorKind, Verdicts};
use tokio::time::timeout;

use self::feasibility::Feasibility;
pub(crate) use self::feasibility::denial_without_store;
pub(crate) use self::refund::RefundTarget;
use crate::deny_cache::{DenyCache, DenyCacheMoment};
use crate::fallback::FallbackStore;
use crate::lease_table::LeaseTable;
use crate::store_outage::StoreOutage;
use crate::store_trouble::StoreTrouble;
use crate::store_vitals::{StoreReport, StoreVitals};
use crate::{Decision, DecisionSource};

/// Turns charges into a decision, whether the store answers or not.
#[derive(Debug)]
pub(crate) struct Decider<S> {
    store: S,
    /// Only for a remote store.
    denials: Option<DenyCache>,
    leases: LeaseTable,
    fallback: FallbackStore,
    trouble: StoreTrouble,
    outage: StoreOutage,
    vitals: StoreVitals,
}

/// The terms that policies set for a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecisionTerms {
    /// How long the store may take; `None` is the store's own deadline.
    pub(crate) deadline: Option<Span>,
    /// Whether to ask the store even if a cached denial holds.
    pub(crate) exact: bool,
    /// How much can be taken in advance, in thousandths of the limit.
    pub(crate) leased: Option<u16>,
}

impl DecisionTerms {
    /// The terms of a policy with this precision.
    pub(crate) const fn of(precision: Precision) -> Self {
        let leased = match precision {
            Precision::Leased { max_over_permille } => Some(max_over_permille),
            _ => None,
        };
        Self { deadline: None, exact: matches!(precision, Precision::Exact), leased }
    }
}

impl<S: Store> Decider<S> {
    /// `nodes` is how many instances share the limits.
    pub(crate) fn new(store: S, nodes: u32) -> Self {
        let denials = store.shared_secret().map(|_| DenyCache::new());
        Self {
            store,
            denials,
            leases: LeaseTable::new(),
            fallback: FallbackStore::new(nodes),
            trouble: StoreTrouble::default(),
            outage: StoreOutage::default(),
            vitals: StoreVitals::default(),
        }
    }

    /// Reports the store's outages to `outage`.
    pub(crate) fn with_outage(self, outage: StoreOutage) -> Self {
        Self { outage, ..self }
    }

    pub(crate) const fn store(&self) -> &S {
        &self.store
    }

    /// Whether the store is remote.
    pub(crate) const fn is_remote(&self) -> bool {
        self.denials.is_some()
    }

    /// Decides without waiting. Returns `None`, and takes nothing, if the store has to be awaited.
    #[inline]
    pub(crate) fn try_decide(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
    ) -> Option<Decision> {
        if let Some(denials) = &self.denials {
            return match Feasibility::of(charges) {
                Feasibility::AllLimitsZero => {
                    Some(denial_without_store(charges, DecisionSource::None))
                }
                Feasibility::NeverPasses => {
                    self.cached_denial(denials, charges, terms, denials.moment(charges))
                }
                Feasibility::Possible => {
                    self.cached_decision(denials, charges, terms, denials.moment(charges))
                }
            };
        }
        let mut is_answered = false;
        let decision = Decision::of_charges(charges, DecisionSource::Store, |out| {
            let answer = self.store.try_settle(charges, out);
            is_answered = answer.is_some();
            answer.unwrap_or_default()
        });
        is_answered.then_some(decision)
    }

    /// Decides about charges. `mode` is each charge's behaviour without a store.
    pub(crate) async fn decide(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        let Some(denials) = &self.denials else {
            let decision = self.ask_within(charges, None).await;
            return decision.unwrap_or_else(|_| self.decide_without_store(charges, mode));
        };
        match Feasibility::of(charges) {
            Feasibility::AllLimitsZero => {
                return denial_without_store(charges, DecisionSource::None);
            }
            Feasibility::NeverPasses => {
                return Box::pin(self.peek_infeasible(denials, charges, terms, mode)).await;
            }
            Feasibility::Possible => {}
        }
        let now = denials.moment(charges);
        if let Some(decision) = self.cached_decision(denials, charges, terms, now) {
            return decision;
        }
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        let outcome = if let Some(request) = self.lease_request(charges, terms, now.at) {
            let leased = Box::pin(self.ask_with_lease(denials, charges, terms, request)).await;
            leased.map(|leased| decision = leased)
        } else {
            self.ask_into(charges, terms.deadline, &mut decision).await
        };
        let answered_at = denials.now();
        let took = answered_at.since(now.at);
        if let Err(error) = outcome {
            return self.decide_after_failure(&error, took, charges, mode);
        }
        self.vitals.record_answer(took);
        self.outage.record_answer(answered_at);
        self.learn(denials, charges, &decision, now, answered_at);
        if terms.leased.is_some() {
            return self.with_leased_remaining(charges, terms, decision, now.at);
        }
        decision
    }

    #[cold]
    fn decide_after_failure(
        &self,
        error: &StoreError,
        took: Span,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError,
    ) -> Decision {
        self.vitals.record_failure(error, took);
        let now = self.now();
        self.trouble.record(error, now);
        self.outage.record_failure(error, now);
        self.decide_without_store(charges, mode)
    }

    /// The store's problem, until it answers again.
    pub(crate) fn store_problem(&self) -> Option<String> {
        self.trouble.problem(self.now(), self.store.is_available())
    }

    /// The time by the deny cache's clock. Local stores have no deny cache and do not use the time.
    fn now(&self) -> Timestamp {
        self.denials.as_ref().map_or(Timestamp::ZERO, DenyCache::now)
    }

    pub(crate) fn report(&self) -> StoreReport {
        StoreReport {
            is_remote: self.is_remote(),
            is_available: self.store.is_available(),
            problem: self.store_problem(),
            round_trip: self.store.round_trip(),
            latency: self.vitals.latency(),
            errors: self.vitals.errors(),
        }
    }

    /// Asks the store with a deadline. The store enforces the deadline itself, so that it can count the
    /// missed ones; a timeout here covers a store that does not.
    async fn ask_within(
        &self,
        charges: &[Charge<'_>],
        deadline: Option<Span>,
    ) -> Result<Decision, StoreError> {
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        self.ask_into(charges, deadline, &mut decision).await?;
        Ok(decision)
    }

    /// [`ask_within`](Self::ask_within) into an existing decision without verdicts, which saves a move.
    async fn ask_into(
        &self,
        charges: &[Charge<'_>],
        deadline: Option<Span>,
        decision: &mut Decision,
    ) -> Result<(), StoreError> {
        let verdicts = decision.verdicts_mut();
        let allowed = match deadline {
            None => self.store.settle(charges, verdicts).await?,
            Some(deadline) => {
                let settled = self.store.settle_within(charges, verdicts, deadline);
                timeout((deadline + LENIENCE).into(), settled).await.unwrap_or_else(|_| {
                    let message = format!("no answer within {deadline}");
                    Err(StoreError::new(StoreErrorKind::Timeout, message))
                })?
            }
        };
        decision.fill_outcome(charges, allowed);
        Ok(())
    }

    fn learn(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        decision: &Decision,
        moment: DenyCacheMoment,
        answered_at: Timestamp,
    ) {
        if decision.is_allowed() {
            denials.record_admitted(charges, decision.all_verdicts(), answered_at);
        } else {
            let moment = self.forget_admitting_counters(denials, charges, decision, moment);
            denials.remember(charges, decision.all_verdicts(), moment);
        }
        self.fallback.record_verdicts(charges, decision.all_verdicts(), moment.at);
    }

    /// A stepwise store takes units from one counter and refunds them if another counter denies. A
    /// request that was denied in between would pass now, so its denial is forgotten. Returns the moment
    /// with these refunds included, so that the denial of this request itself is remembered.
    fn forget_admitting_counters(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        decision: &Decision,
        moment: DenyCacheMoment,
    ) -> DenyCacheMoment {
        if charges.len() < 2 || !self.store.is_stepwise() {
            return moment;
        }
        let verdicts = charges.iter().zip(decision.verdicts());
        let passed = verdicts.filter(|(_, verdict)| verdict.allowed).map(|(charge, _)| charge);
        passed.fold(moment, |moment, charge| denials.forget_since(charge, charges, moment))
    }
}

/// The time beyond its deadline that a store gets to report the timeout itself.
const LENIENCE: Span = Span::from_millis(2);

fn decision_of(
    charges: &[Charge<'_>],
    allowed: bool,
    source: DecisionSource,
    verdicts: Verdicts,
) -> Decision {
    Decision::of_charges(charges, source, |out| {
        *out = verdicts;
        allowed
    })
}
