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
use tidegate_store::{Promise, Store, StoreError, StoreErrorKind, StoreHealth, Verdicts};
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

/// What is known of a decision that has to wait, so that nothing is looked up twice.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PendingDecision {
    /// An embedded store that does not answer at once.
    Embedded,
    /// An embedded store that failed at once.
    Failed,
    /// A remote store: nothing spares us from asking it.
    Remote {
        /// The moment before it is asked.
        moment: DenyCacheMoment,
        terms: DecisionTerms,
        /// Whether the request can pass at all.
        is_possible: bool,
    },
}

impl<S: Store> Decider<S> {
    /// `nodes` is how many instances share the limits.
    pub(crate) fn new(store: S, nodes: u32) -> Self {
        let denials = store.profile().is_remote().then(DenyCache::new);
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

    /// Decides, if that needs no waiting. Otherwise nothing is taken, and [`finish`](Self::finish) goes on
    /// from here.
    #[inline]
    pub(crate) fn begin(
        &self,
        charges: &[Charge<'_>],
        terms: impl FnOnce() -> DecisionTerms,
    ) -> Promise<Decision, PendingDecision> {
        let Some(denials) = &self.denials else { return self.begin_embedded(charges) };
        let feasibility = Feasibility::of(charges);
        if feasibility == Feasibility::AllLimitsZero {
            return Promise::Ready(denial_without_store(charges, DecisionSource::None));
        }
        let (moment, terms) = (denials.moment(charges), terms());
        let is_possible = feasibility == Feasibility::Possible;
        let cached = if is_possible {
            self.cached_decision(denials, charges, terms, moment)
        } else {
            self.cached_denial(denials, charges, terms, moment)
        };
        match cached {
            Some(decision) => Promise::Ready(decision),
            None => Promise::Later(PendingDecision::Remote { moment, terms, is_possible }),
        }
    }

    #[inline]
    fn begin_embedded(&self, charges: &[Charge<'_>]) -> Promise<Decision, PendingDecision> {
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        match self.store.settle(charges, None, decision.verdicts_mut()).ready() {
            Some(Ok(passes)) => {
                decision.fill_outcome(charges, passes);
                Promise::Ready(decision)
            }
            Some(Err(_)) => Promise::Later(PendingDecision::Failed),
            None => Promise::Later(PendingDecision::Embedded),
        }
    }

    /// Makes a decision that [`begin`](Self::begin) could not make. `mode` is each charge's behaviour
    /// without a store.
    pub(crate) async fn finish(
        &self,
        pending: PendingDecision,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        let (Some(denials), PendingDecision::Remote { moment, terms, is_possible }) =
            (&self.denials, pending)
        else {
            let answer = match pending {
                PendingDecision::Failed => None,
                _ => self.ask_within(charges, None).await.ok(),
            };
            return answer.unwrap_or_else(|| self.decide_without_store(charges, mode));
        };
        if !is_possible {
            return Box::pin(self.peek_infeasible(denials, charges, terms, mode, moment)).await;
        }
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        let outcome = if let Some(request) = self.lease_request(charges, terms, moment.at) {
            let leased = Box::pin(self.ask_with_lease(denials, charges, terms, request)).await;
            leased.map(|leased| decision = leased)
        } else {
            self.ask_into(charges, terms.deadline, &mut decision).await
        };
        let answered_at = denials.now();
        let took = answered_at.since(moment.at);
        if let Err(error) = outcome {
            return self.decide_after_failure(&error, took, charges, mode);
        }
        self.vitals.record_answer(took);
        self.outage.record_answer(answered_at);
        self.learn(denials, charges, &decision, moment, answered_at);
        if terms.leased.is_some() {
            return self.with_leased_remaining(charges, terms, decision, moment.at);
        }
        decision
    }

    /// Decides about charges, whether or not that needs waiting.
    pub(crate) async fn decide(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        match self.begin(charges, || terms) {
            Promise::Ready(decision) => decision,
            Promise::Later(pending) => self.finish(pending, charges, mode).await,
        }
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
        self.trouble.problem(self.now(), self.store.health().is_available)
    }

    /// The time by the deny cache's clock. Local stores have no deny cache and do not use the time.
    fn now(&self) -> Timestamp {
        self.denials.as_ref().map_or(Timestamp::ZERO, DenyCache::now)
    }

    pub(crate) fn report(&self) -> StoreReport {
        let StoreHealth { is_available, round_trip } = self.store.health();
        StoreReport {
            is_remote: self.is_remote(),
            is_available,
            problem: self.store_problem(),
            round_trip,
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
        let settled = self.store.settle(charges, deadline, verdicts);
        let allowed = match deadline {
            None => settled.await?,
            Some(deadline) => {
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
        if charges.len() < 2 || !self.store.profile().is_stepwise {
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
