//! A store, with what spares it and what stands in for it.

mod cached_decisions;
mod feasibility;
mod refund;

use smallvec::SmallVec;
use tidegate_core::{Charge, Rule, Span, Timestamp, Verdict};
use tidegate_policy::{OnStoreError, Precision};
use tidegate_store::{Store, StoreError, StoreErrorKind, Verdicts};
use tokio::time::timeout;

use self::feasibility::Feasibility;
pub(crate) use self::feasibility::denial_without_store;
pub(crate) use self::refund::RefundTarget;
use crate::deny_cache::{DenyCache, DenyCacheMoment};
use crate::fallback::{self, FallbackStore};
use crate::lease_table::LeaseTable;
use crate::store_trouble::StoreTrouble;
use crate::store_vitals::{StoreReport, StoreVitals};
use crate::{Decision, DecisionSource};

/// Where charges become a decision, whatever the store does.
#[derive(Debug)]
pub(crate) struct Decider<S> {
    store: S,
    /// For a store at the other end of a wire.
    denials: Option<DenyCache>,
    leases: LeaseTable,
    fallback: FallbackStore,
    trouble: StoreTrouble,
    vitals: StoreVitals,
}

/// What policies ask of a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecisionTerms {
    /// How long the store may take; as long as the store itself allows, unless said.
    pub(crate) deadline: Option<Span>,
    /// Whether the store is to be asked even where the answer is known.
    pub(crate) exact: bool,
    /// How much may be taken ahead, in thousandths of the limit.
    pub(crate) leased: Option<u16>,
}

impl DecisionTerms {
    /// Those of one policy.
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
            vitals: StoreVitals::default(),
        }
    }

    pub(crate) fn with_nodes(self, nodes: u32) -> Self {
        Self { fallback: FallbackStore::new(nodes), ..self }
    }

    /// From now on this is instance `number` of `nodes`, counted from zero.
    pub(crate) fn set_share(&self, nodes: u32, number: u32) {
        self.fallback.set_share(nodes, number);
    }

    pub(crate) const fn store(&self) -> &S {
        &self.store
    }

    /// Whether the store is at the other end of a wire.
    pub(crate) const fn is_remote(&self) -> bool {
        self.denials.is_some()
    }

    /// Decides where that takes no waiting. `None` where it may: then nothing was asked.
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

    /// Decides. `mode` says what each charge's policy does without a store.
    pub(crate) async fn decide(
        &self,
        charges: &[Charge<'_>],
        terms: DecisionTerms,
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        let Some(denials) = &self.denials else {
            let asked = self.ask_within(charges, None).await;
            return asked.unwrap_or_else(|_| self.decide_without_store(charges, mode));
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
        let asked = if let Some(asking) = self.lease_request(charges, terms, now.at) {
            let asked = Box::pin(self.ask_with_lease(denials, charges, terms, asking)).await;
            asked.map(|ahead| decision = ahead)
        } else {
            self.ask_into(charges, terms.deadline, &mut decision).await
        };
        let heard = denials.now();
        let took = heard.since(now.at);
        if let Err(error) = asked {
            return self.decide_after_failure(&error, took, charges, mode);
        }
        self.vitals.record_answer(took);
        self.learn(denials, charges, &decision, now, heard);
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
        self.trouble.record(error, self.now());
        self.decide_without_store(charges, mode)
    }

    /// What is wrong with the store, until it answers again.
    pub(crate) fn store_problem(&self) -> Option<String> {
        self.trouble.problem(self.now(), self.store.is_available())
    }

    /// By the clock of a remote store's decisions; others have no use for it.
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

    /// Asks a store that keeps the deadline, so that it knows of every one that was missed; and does
    /// not rely on that.
    async fn ask_within(
        &self,
        charges: &[Charge<'_>],
        deadline: Option<Span>,
    ) -> Result<Decision, StoreError> {
        let mut decision = Decision::without_verdicts(false, DecisionSource::Store);
        self.ask_into(charges, deadline, &mut decision).await?;
        Ok(decision)
    }

    /// The same into a place for the decision, which holds no verdict yet and is not moved about then.
    async fn ask_into(
        &self,
        charges: &[Charge<'_>],
        deadline: Option<Span>,
        place: &mut Decision,
    ) -> Result<(), StoreError> {
        let verdicts = place.verdicts_mut();
        let allowed = match deadline {
            None => self.store.settle(charges, verdicts).await?,
            Some(deadline) => {
                let asked = self.store.settle_within(charges, verdicts, deadline);
                timeout((deadline + LENIENCE).into(), asked).await.unwrap_or_else(|_| {
                    let message = format!("no answer within {deadline}");
                    Err(StoreError::new(StoreErrorKind::Timeout, message))
                })?
            }
        };
        place.fill_outcome(charges, allowed);
        Ok(())
    }

    /// The verdicts, if these charges are known to be denied; and the moment, for
    /// [`remember`](Self::remember).
    pub(crate) fn recall(
        &self,
        charges: &[Charge<'_>],
    ) -> Option<(Option<Verdicts>, DenyCacheMoment)> {
        let denials = self.denials.as_ref()?;
        let now = denials.moment(charges);
        Some((denials.recall(charges, now), now))
    }

    /// Takes note of a denial that somebody else found.
    pub(crate) fn remember(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        asked: DenyCacheMoment,
    ) {
        if let Some(denials) = &self.denials {
            denials.remember(charges, verdicts, asked);
        }
    }

    fn learn(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        decision: &Decision,
        asked: DenyCacheMoment,
        heard: Timestamp,
    ) {
        if decision.is_allowed() {
            denials.record_admitted(charges, decision.all_verdicts(), heard);
        } else {
            let asked = self.forget_admitting_counters(denials, charges, decision, asked);
            denials.remember(charges, decision.all_verdicts(), asked);
        }
        self.fallback.record_verdicts(charges, decision.all_verdicts(), asked.at);
    }

    /// Counters that let a request pass which another denied may have given and got back: whoever was
    /// denied in between would be let in now. Returns the moment, as if that had been known by then.
    fn forget_admitting_counters(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        decision: &Decision,
        asked: DenyCacheMoment,
    ) -> DenyCacheMoment {
        if charges.len() < 2 || !self.store.is_stepwise() {
            return asked;
        }
        let verdicts = charges.iter().zip(decision.verdicts());
        let passed = verdicts.filter(|(_, verdict)| verdict.allowed).map(|(charge, _)| charge);
        passed.fold(asked, |asked, charge| denials.forget_since(charge, charges, asked))
    }

    /// The only place that knows what a failed store means. Each policy has its own answer; one
    /// that is closed denies.
    #[cold]
    pub(crate) fn decide_without_store(
        &self,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError,
    ) -> Decision {
        if Feasibility::of(charges) != Feasibility::Possible {
            return denial_without_store(charges, DecisionSource::Fallback);
        }
        let counts = |index: usize, wanted| {
            mode(index) == wanted && charges.get(index).is_some_and(|charge| charge.rule().enforced)
        };
        let closed = |index: &usize| counts(*index, OnStoreError::Closed);
        if (0..charges.len()).any(|index| closed(&index)) {
            let denying = (0..charges.len()).filter(closed);
            return Decision::unavailable(denying, fallback::RETRY_AFTER);
        }
        if !(0..charges.len()).any(|index| mode(index) == OnStoreError::Local) {
            return Decision::without_verdicts(true, DecisionSource::Fallback);
        }
        // Those that are open are watched only.
        let rule = |(index, charge): (usize, &Charge<'_>)| Rule {
            enforced: counts(index, OnStoreError::Local),
            ..*charge.rule()
        };
        let rules: SmallVec<[Rule; 4]> = charges.iter().enumerate().map(rule).collect();
        let local: SmallVec<[Charge<'_>; 4]> =
            charges.iter().zip(&rules).map(|(charge, rule)| charge.with_rule(rule)).collect();
        let now = self.now();
        Decision::of_charges(&local, DecisionSource::Fallback, |out| {
            let passes = self.fallback.settle(&local, now, out);
            let watched = out.iter_mut().enumerate();
            for (_, verdict) in watched.filter(|(index, _)| counts(*index, OnStoreError::Open)) {
                // Nobody is to read a denial where there is none.
                *verdict = Verdict { allowed: true, retry_after: None, ..*verdict };
            }
            passes
        })
    }
}

/// How much longer than it should a store may take before nobody waits for it.
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
