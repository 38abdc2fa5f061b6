//! The limiter of a plan: many policies, one store, and what each does when the store fails.

mod block;
mod decision_steps;
mod refund;

use std::ops::Deref;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tidegate_core::{Charge, Cost, Span, Verdict};
use tidegate_policy::{
    AmendedPlan, Amendment, Attributes, FileProblems, KeyHasher, OnStoreError, Plan, PlannedPolicy,
    PolicySource as Text, Precision, RequestCharges,
};
use tidegate_store::{MemoryStore, Store};

use self::block::{CallerBlock, blocks_of, has_blocks};
use self::decision_steps::{DecisionSteps, on_store_error_of};
use crate::decider::{Decider, DecisionTerms, denial_without_store};
use crate::{Decision, DecisionSource, StoreReport};

/// Decides by a plan, which can be replaced while decisions are being made.
///
/// Each decision takes the plan once, so that it uses a single plan, either the old or the new one.
///
/// ```
/// use tidegate::{Cost, MemoryStore, Plan, PlanLimiter};
/// use tidegate::config::PolicySource;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::config::FileProblems> {
/// let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// let limiter = PlanLimiter::new(plan, MemoryStore::new());
///
/// assert!(limiter.check(&[("user", "42")], Cost::ONE).await.is_allowed());
/// assert!(!limiter.check(&[("user", "42")], Cost::ONE).await.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PlanLimiter<S = MemoryStore> {
    plan: ArcSwap<Plan>,
    gate: Decider<S>,
}

impl<S: Store> PlanLimiter<S> {
    /// Loads what a user wrote, or reports everything that is wrong with it. Keys become
    /// fingerprints the way the store needs them: private to this process, or the same in all
    /// processes that share the store.
    pub fn load(source: &Text, store: S) -> Result<Self, FileProblems> {
        Ok(Self::new(Plan::compile_with(hasher_of(&store), source)?, store))
    }

    /// The same for a limiter that is in use: decides by this text from now on, if it is valid.
    pub fn reload(&self, source: &Text) -> Result<(), FileProblems> {
        self.replace(Plan::compile_with(hasher_of(self.gate.store()), source)?);
        Ok(())
    }

    /// The plan that a text and changes to it would make here, for [`replace`](Self::replace).
    pub fn compile(
        &self,
        source: &Text,
        amendments: &[Amendment],
    ) -> Result<AmendedPlan, FileProblems> {
        Plan::compile_amended(hasher_of(self.gate.store()), source, amendments)
    }

    /// Uses this plan, until another takes its place.
    pub fn new(plan: Plan, store: S) -> Self {
        set_deadline(&store, &plan);
        let plan = plan.naming_keys(store.names_keys());
        Self { plan: ArcSwap::from_pointee(plan), gate: Decider::new(store, 1) }
    }

    /// How many instances share the limits: each has its part of them while the store does not
    /// answer. Defaults to 1. Parts are rounded up, until [`set_share`](Self::set_share) says which of
    /// them this one is.
    #[must_use]
    pub fn expected_nodes(self, nodes: u32) -> Self {
        Self { gate: self.gate.with_nodes(nodes), ..self }
    }

    /// Which of how many instances this one is, counted from zero, as far as that is known now. The
    /// parts of instances that have different numbers add up to the limit.
    pub fn set_share(&self, nodes: u32, number: u32) {
        self.gate.set_share(nodes, number);
    }

    /// The current plan. Take it once for each decision.
    pub fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// The current plan, if it is this one, for whoever keeps something that holds only as long as the
    /// plan does, and does not want to keep the plan.
    #[inline]
    pub fn plan_if(&self, known: &Weak<Plan>) -> Option<impl Deref<Target = Arc<Plan>> + use<S>> {
        let plan = self.plan.load();
        std::ptr::eq(Arc::as_ptr(&plan), known.as_ptr()).then_some(plan)
    }

    /// Decides by another plan from now on. Counters stay: a changed limit finds its count.
    pub fn replace(&self, plan: Plan) {
        set_deadline(self.gate.store(), &plan);
        self.plan.store(Arc::new(plan.naming_keys(self.gate.store().names_keys())));
        // Afterwards, so that what the old plan denied until now is forgotten too.
        self.gate.forget_denials();
    }

    /// The store it asks.
    pub const fn store(&self) -> &S {
        self.gate.store()
    }

    /// What is wrong with a remote store, as decisions saw it last.
    pub fn store_problem(&self) -> Option<String> {
        self.gate.store_problem()
    }

    /// How the store is doing.
    pub fn store_report(&self) -> StoreReport {
        self.gate.report()
    }

    /// Asks the store again about callers that were denied: another instance may have given
    /// something back.
    pub fn forget_denials(&self) {
        self.gate.forget_denials();
    }

    /// May this request happen? Asks all policies that apply to it.
    pub async fn check<A>(&self, request: &A, cost: Cost) -> Decision
    where
        A: Attributes + Sync + ?Sized,
    {
        let plan = self.plan();
        let owed = plan.charges(request, cost);
        self.decide(&owed).await
    }

    /// Decides what is owed; verdicts come in the order of its charges.
    pub async fn decide(&self, owed: &RequestCharges<'_>) -> Decision {
        // At the other end of a wire, what needs no store is seen where that is asked.
        if self.is_remote()
            && let Some(decision) = decision_without_store(owed)
        {
            return decision;
        }
        if !self.is_remote()
            && let Some(decision) = self.try_decide(owed)
        {
            return decision;
        }
        self.decide_by_store(owed).await
    }

    /// [`settle`](Self::settle) for a caller that cannot wait. `None` if a remote store has to be
    /// asked, or if a policy blocks callers that it has denied: then nothing was done.
    pub fn try_decide(&self, owed: &RequestCharges<'_>) -> Option<Decision> {
        decision_without_store(owed).or_else(|| {
            let is_plain = !owed.is_named() && !has_blocks(owed);
            is_plain.then(|| self.gate.try_decide(owed.charges(), terms_of(owed)))?
        })
    }

    async fn decide_by_store(&self, owed: &RequestCharges<'_>) -> Decision {
        // Seldom, and large: whoever moves the future of a decision moves all of it.
        let named = owed.is_named().then(|| owed.named_charges());
        let charges = named.as_deref().unwrap_or(owed.charges());
        let blocks = blocks_of(owed);
        if blocks.is_empty() {
            return self.ask(owed, charges).await;
        }
        Box::pin(self.decide_unless_blocked(owed, charges, &blocks)).await
    }

    async fn decide_unless_blocked(
        &self,
        owed: &RequestCharges<'_>,
        charges: &[Charge<'_>],
        blocks: &[CallerBlock<'_>],
    ) -> Decision {
        let mut steps = DecisionSteps::begin();
        match self.decide_if_blocked(owed, blocks, &mut steps).await {
            Some(decision) => decision,
            None => {
                let mode = |index| on_store_error_of(owed, index);
                let decision = self.decide_step(&mut steps, owed, charges, mode).await;
                self.block(owed, blocks, decision, &mut steps).await
            }
        }
    }

    /// Decides charges that belong to no policy, such as those of a limit that came with the
    /// request ([`Plan::ad_hoc`]): all of them pay, or none. `on_store_error` says what happens
    /// without the store.
    pub async fn decide_charges(
        &self,
        charges: &[Charge<'_>],
        on_store_error: OnStoreError,
    ) -> Decision {
        if charges.is_empty() {
            return Decision::without_verdicts(true, DecisionSource::None);
        }
        if charges.len() > Plan::MAX_CHARGES {
            return denial_without_store(charges, DecisionSource::None);
        }
        let deadline = Some(self.plan.load().settings().store_deadline());
        let terms = DecisionTerms { deadline, ..DecisionTerms::default() };
        self.gate.decide(charges, terms, |_| on_store_error).await
    }

    /// [`decide_charges`](Self::decide_charges) for a caller that cannot wait. `None` if a remote
    /// store has to be asked: then nothing was done.
    pub fn try_decide_charges(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        match charges.len() {
            1..=Plan::MAX_CHARGES => self.gate.try_decide(charges, DecisionTerms::default()),
            _ => None,
        }
    }

    /// Decides each charge by itself, for a caller that has many and cannot wait; see
    /// [`Store::settle_each`]. Returns whether it was done: not if a remote store has to be
    /// asked.
    pub fn decide_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        tell: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        !self.is_remote() && self.gate.store().settle_each(charges, tell)
    }

    /// Whether the store is remote, so that it pays to have many decisions in flight.
    pub fn is_remote(&self) -> bool {
        self.gate.is_remote()
    }

    /// Whether anything is left of what is owed. Takes nothing; a caller is denied if it would be
    /// denied for the smallest cost, and may come back when the quota is full again.
    pub async fn peek(&self, owed: &RequestCharges<'_>) -> Decision {
        let owed = owed.clone().with_cost(Cost::PEEK);
        let mut decision = self.decide(&owed).await;
        for index in 0..owed.charges().len() {
            let verdict = decision.verdicts().get(index).filter(|_| decision.counts(index));
            if let Some(used_up) = verdict.copied().filter(|it| it.allowed && it.remaining == 0) {
                decision = decision.with_wait(index, used_up.reset_after);
            }
        }
        decision
    }

    /// Denies without asking the store: others wait for what the charge at `index` would take, and were
    /// there before. It may try again after `wait`.
    pub fn turn_away(&self, owed: &RequestCharges<'_>, index: usize, wait: Span) -> Decision {
        denial_without_store(owed.charges(), DecisionSource::None).turned_away(index, wait)
    }

    fn ask(
        &self,
        owed: &RequestCharges<'_>,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Decision> + Send {
        self.gate.decide(charges, terms_of(owed), |index| on_store_error_of(owed, index))
    }
}

/// What needs neither a store nor what is known of one.
fn decision_without_store(owed: &RequestCharges<'_>) -> Option<Decision> {
    if owed.is_empty() {
        return Some(Decision::without_verdicts(true, DecisionSource::None));
    }
    owed.exceeds_max_charges().then(|| denial_without_store(owed.charges(), DecisionSource::None))
}

/// The strictest of what its policies ask for.
fn terms_of(owed: &RequestCharges<'_>) -> DecisionTerms {
    let policies = || (0..owed.charges().len()).filter_map(|index| owed.policy(index));
    let precision = policies().map(PlannedPolicy::precision).next().unwrap_or_default();
    DecisionTerms {
        deadline: policies().map(PlannedPolicy::store_deadline).min(),
        exact: policies().any(|policy| policy.precision() == Precision::Exact),
        // Of one limit only, so that the first is all of them.
        ..DecisionTerms::of(precision)
    }
}

/// The store waits for as long as the most patient policy wants to.
fn set_deadline(store: &impl Store, plan: &Plan) {
    let of_policies = plan.policies().iter().map(PlannedPolicy::store_deadline);
    let longest = of_policies.fold(plan.settings().store_deadline(), Span::max);
    store.set_deadline(longest);
}

fn hasher_of(store: &impl Store) -> KeyHasher {
    store.shared_secret().map_or_else(KeyHasher::of_this_process, KeyHasher::shared)
}
