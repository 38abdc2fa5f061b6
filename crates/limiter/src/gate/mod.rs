//! A store, with what spares it and what stands in for it.

mod ahead;
mod hope;
mod refund;

use smallvec::SmallVec;
use tidegate_core::{Charge, Rule, Span, Timestamp, Verdict};
use tidegate_policy::{OnStoreError, Precision};
use tidegate_store::{Store, StoreError, StoreErrorKind, Verdicts};
use tokio::time::timeout;

use self::hope::Hope;
pub(crate) use self::hope::denied_unasked;
pub(crate) use self::refund::Payee;
use crate::deny_cache::{DenyCache, Moment};
use crate::fallback::{self, Fallback};
use crate::leases::Leases;
use crate::trouble::Trouble;
use crate::vitals::{StoreReport, Vitals};
use crate::{Decision, Source};

/// Where charges become a decision, whatever the store does.
#[derive(Debug)]
pub(crate) struct Gate<S> {
    store: S,
    /// For a store at the other end of a wire.
    denials: Option<DenyCache>,
    leases: Leases,
    fallback: Fallback,
    trouble: Trouble,
    vitals: Vitals,
}

/// What policies ask of a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// How long the store may take; as long as the store itself allows, unless said.
    pub(crate) deadline: Option<Span>,
    /// Whether the store is to be asked even where the answer is known.
    pub(crate) exact: bool,
    /// How much may be taken ahead, in thousandths of the limit.
    pub(crate) leased: Option<u16>,
}

impl Terms {
    /// Those of one policy.
    pub(crate) const fn of(precision: Precision) -> Self {
        let leased = match precision {
            Precision::Leased { max_over_permille } => Some(max_over_permille),
            _ => None,
        };
        Self { deadline: None, exact: matches!(precision, Precision::Exact), leased }
    }
}

impl<S: Store> Gate<S> {
    /// `nodes` is how many instances share the limits.
    pub(crate) fn new(store: S, nodes: u32) -> Self {
        let denials = store.shared_secret().map(|_| DenyCache::new());
        Self {
            store,
            denials,
            leases: Leases::new(),
            fallback: Fallback::new(nodes),
            trouble: Trouble::default(),
            vitals: Vitals::default(),
        }
    }

    pub(crate) fn with_nodes(self, nodes: u32) -> Self {
        Self { fallback: Fallback::new(nodes), ..self }
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
    pub(crate) fn settle_at_once(&self, charges: &[Charge<'_>], terms: Terms) -> Option<Decision> {
        if let Some(denials) = &self.denials {
            return match Hope::of(charges) {
                Hope::Closed => Some(denied_unasked(charges, Source::None)),
                Hope::None => self.denied_before(denials, charges, terms, denials.moment(charges)),
                Hope::Some => self.known(denials, charges, terms, denials.moment(charges)),
            };
        }
        let mut is_answered = false;
        let decision = Decision::of_charges(charges, Source::Store, |out| {
            let answer = self.store.settle_at_once(charges, out);
            is_answered = answer.is_some();
            answer.unwrap_or_default()
        });
        is_answered.then_some(decision)
    }

    /// Decides. `mode` says what each charge's policy does without a store.
    pub(crate) async fn settle(
        &self,
        charges: &[Charge<'_>],
        terms: Terms,
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        let Some(denials) = &self.denials else {
            let asked = self.ask_within(charges, None).await;
            return asked.unwrap_or_else(|_| self.without_store(charges, mode));
        };
        match Hope::of(charges) {
            Hope::Closed => return denied_unasked(charges, Source::None),
            Hope::None => return Box::pin(self.look_in_vain(denials, charges, terms, mode)).await,
            Hope::Some => {}
        }
        let now = denials.moment(charges);
        if let Some(decision) = self.known(denials, charges, terms, now) {
            return decision;
        }
        let mut decision = Decision::unsettled(false, Source::Store);
        let asked = if let Some(asking) = self.asking(charges, terms, now.at) {
            let asked = Box::pin(self.ask_ahead(denials, charges, terms, asking)).await;
            asked.map(|ahead| decision = ahead)
        } else {
            self.ask_into(charges, terms.deadline, &mut decision).await
        };
        let heard = denials.now();
        let took = heard.since(now.at);
        if let Err(error) = asked {
            return self.failed(&error, took, charges, mode);
        }
        self.vitals.answered(took);
        self.learn(denials, charges, &decision, now, heard);
        if terms.leased.is_some() {
            return self.told(charges, terms, decision, now.at);
        }
        decision
    }

    #[cold]
    fn failed(
        &self,
        error: &StoreError,
        took: Span,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError,
    ) -> Decision {
        self.vitals.failed(error, took);
        self.trouble.note(error, self.now());
        self.without_store(charges, mode)
    }

    /// What is wrong with the store, until it answers again.
    pub(crate) fn store_problem(&self) -> Option<String> {
        self.trouble.what(self.now(), self.store.is_available())
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
        let mut decision = Decision::unsettled(false, Source::Store);
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
        place.close(charges, allowed);
        Ok(())
    }

    /// The verdicts, if these charges are known to be denied; and the moment, for
    /// [`remember`](Self::remember).
    pub(crate) fn recall(&self, charges: &[Charge<'_>]) -> Option<(Option<Verdicts>, Moment)> {
        let denials = self.denials.as_ref()?;
        let now = denials.moment(charges);
        Some((denials.recall(charges, now), now))
    }

    /// Takes note of a denial that somebody else found.
    pub(crate) fn remember(&self, charges: &[Charge<'_>], verdicts: &Verdicts, asked: Moment) {
        if let Some(denials) = &self.denials {
            denials.remember(charges, verdicts, asked);
        }
    }

    fn learn(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        decision: &Decision,
        asked: Moment,
        heard: Timestamp,
    ) {
        if decision.is_allowed() {
            denials.admitted(charges, decision.all_verdicts(), heard);
        } else {
            let asked = self.passed_by(denials, charges, decision, asked);
            denials.remember(charges, decision.all_verdicts(), asked);
        }
        self.fallback.saw(charges, decision.all_verdicts(), asked.at);
    }

    /// Counters that let a request pass which another denied may have given and got back: whoever was
    /// denied in between would be let in now. Returns the moment, as if that had been known by then.
    fn passed_by(
        &self,
        denials: &DenyCache,
        charges: &[Charge<'_>],
        decision: &Decision,
        asked: Moment,
    ) -> Moment {
        if charges.len() < 2 || !self.store.settles_in_steps() {
            return asked;
        }
        let verdicts = charges.iter().zip(decision.verdicts());
        let passed = verdicts.filter(|(_, verdict)| verdict.allowed).map(|(charge, _)| charge);
        passed.fold(asked, |asked, charge| denials.forget_since(charge, charges, asked))
    }

    /// The only place that knows what a failed store means. Each policy has its own answer; one
    /// that is closed denies.
    #[cold]
    pub(crate) fn without_store(
        &self,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError,
    ) -> Decision {
        if Hope::of(charges) != Hope::Some {
            return denied_unasked(charges, Source::Fallback);
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
            return Decision::unsettled(true, Source::Fallback);
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
        Decision::of_charges(&local, Source::Fallback, |out| {
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

fn decided(charges: &[Charge<'_>], allowed: bool, source: Source, verdicts: Verdicts) -> Decision {
    Decision::of_charges(charges, source, |out| {
        *out = verdicts;
        allowed
    })
}
