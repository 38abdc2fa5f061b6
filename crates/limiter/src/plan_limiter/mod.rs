//! The limiter of a plan: many policies on one store, each with its own behaviour when the store fails.

mod block;
mod decision_steps;
mod loading;
mod one_policy;
mod refund;
mod watch;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tidegate_core::{Charge, Cost, Span, Verdict};
use tidegate_policy::{Attributes, OnStoreError, Plan, PlannedPolicy, Precision, RequestCharges};
use tidegate_store::{MemoryStore, Store};

use self::block::{CallerBlock, blocks_of, has_blocks};
use self::decision_steps::{DecisionSteps, on_store_error_of};
pub use self::watch::{PlanFileEvent, PlanWatch};
use crate::decider::{Decider, DecisionTerms, denial_without_store};
use crate::{Decision, DecisionSource, StoreEvent, StoreReport};

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
pub struct PlanLimiter<S = MemoryStore> {
    plan: ArcSwap<Plan>,
    decider: Decider<S>,
}

impl<S: Store> PlanLimiter<S> {
    /// Decides by this plan until another [replaces](Self::replace) it.
    pub fn new(plan: Plan, store: S) -> Self {
        set_deadline(&store, &plan);
        let plan = plan.naming_keys(store.names_keys());
        Self { plan: ArcSwap::from_pointee(plan), decider: Decider::new(store, 1) }
    }

    /// How many instances share the limits: each has its part of the limits while the store does not
    /// answer. Defaults to 1. Parts are rounded up until [`set_share`](Self::set_share) sets the number
    /// of this instance.
    #[must_use]
    pub fn expected_nodes(self, nodes: u32) -> Self {
        Self { decider: self.decider.with_nodes(nodes), ..self }
    }

    /// Calls `observer` when the store is lost and when it is found again, instead of saying so in a line. See
    /// [`LimiterBuilder::on_store_event`](crate::LimiterBuilder::on_store_event).
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{MemoryStore, PlanLimiter};
    ///
    /// let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
    /// let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?
    ///     .on_store_event(|event| eprintln!("rate limits: {event}"));
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    #[must_use]
    pub fn on_store_event(self, observer: impl Fn(&StoreEvent) + Send + Sync + 'static) -> Self {
        Self { decider: self.decider.observed_by(Arc::new(observer)), ..self }
    }

    /// Sets how many instances share the limits and the number of this one, counted from zero. The parts
    /// of instances with different numbers add up to the limit.
    ///
    /// A server calls it whenever it learns of another instance, or that one is gone. It takes effect with the
    /// next decision without the store.
    pub fn set_share(&self, nodes: u32, number: u32) {
        self.decider.set_share(nodes, number);
    }

    /// The current plan. Take it once for each decision.
    pub fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// The current plan if it is still `known`, for callers that cache something derived from a plan
    /// without keeping the plan alive.
    #[inline]
    pub fn plan_if(&self, known: &Weak<Plan>) -> Option<impl Deref<Target = Arc<Plan>> + use<S>> {
        let plan = self.plan.load();
        std::ptr::eq(Arc::as_ptr(&plan), known.as_ptr()).then_some(plan)
    }

    /// Decides by another plan from now on. Counters stay: a changed limit finds its count.
    ///
    /// Decisions that are being made keep the plan that they began with. The swap takes no lock.
    pub fn replace(&self, plan: Plan) {
        set_deadline(self.decider.store(), &plan);
        self.plan.store(Arc::new(plan.naming_keys(self.decider.store().names_keys())));
        // After the swap, so that the last denials by the old plan are forgotten too.
        self.decider.forget_denials();
    }

    /// The store that holds the counters.
    pub const fn store(&self) -> &S {
        self.decider.store()
    }

    /// The latest problem with a remote store, as seen by decisions.
    pub fn store_problem(&self) -> Option<String> {
        self.decider.store_problem()
    }

    /// The health of the store.
    pub fn store_report(&self) -> StoreReport {
        self.decider.report()
    }

    /// Forgets all cached denials, so that the store decides again: another instance may have given
    /// units back.
    pub fn forget_denials(&self) {
        self.decider.forget_denials();
    }

    /// May this request happen? Decides by all policies that apply to it.
    ///
    /// A request is a list of attributes; see [`Attributes`]. A policy does not apply to a request that lacks an
    /// attribute of its key. If none applies, the request passes, with the source [`DecisionSource::None`].
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{Cost, DecisionSource, MemoryStore, PlanLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::config::FileProblems> {
    /// let text = "policies: [{ name: search, match: { path: /search }, key: [user], limits: [10/hour] }]";
    /// let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
    ///
    /// let search = [("user", "42"), ("path", "/search")];
    /// assert_eq!(limiter.check(&search, Cost::from(3)).await.remaining(), Some(7));
    /// let other = [("user", "42"), ("path", "/")];
    /// assert_eq!(limiter.check(&other, Cost::ONE).await.source(), DecisionSource::None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check<A>(&self, request: &A, cost: Cost) -> Decision
    where
        A: Attributes + Sync + ?Sized,
    {
        let plan = self.plan();
        let charges = plan.charges(request, cost);
        self.decide(&charges).await
    }

    /// Decides about a request's charges; verdicts come in their order.
    pub async fn decide(&self, request: &RequestCharges<'_>) -> Decision {
        // With a remote store, `try_decide` would look up the deny cache, which `Decider::decide` does
        // again: only the cases that need neither are decided here.
        if self.is_remote()
            && let Some(decision) = decision_without_store(request)
        {
            return decision;
        }
        if !self.is_remote()
            && let Some(decision) = self.try_decide(request)
        {
            return decision;
        }
        self.decide_by_store(request).await
    }

    /// [`decide`](Self::decide) for callers that cannot wait. Returns `None`, and takes nothing, if a
    /// remote store has to be asked or if a policy blocks the callers that it denies.
    pub fn try_decide(&self, request: &RequestCharges<'_>) -> Option<Decision> {
        decision_without_store(request).or_else(|| {
            let is_plain = !request.is_named() && !has_blocks(request);
            is_plain.then(|| self.decider.try_decide(request.charges(), terms_of(request)))?
        })
    }

    async fn decide_by_store(&self, request: &RequestCharges<'_>) -> Decision {
        let named = request.is_named().then(|| request.named_charges());
        let charges = named.as_deref().unwrap_or(request.charges());
        let blocks = blocks_of(request);
        if blocks.is_empty() {
            return self.ask(request, charges).await;
        }
        // Blocks are rare and their future is large: boxed, it does not enlarge every decision's future.
        Box::pin(self.decide_unless_blocked(request, charges, &blocks)).await
    }

    async fn decide_unless_blocked(
        &self,
        request: &RequestCharges<'_>,
        charges: &[Charge<'_>],
        blocks: &[CallerBlock<'_>],
    ) -> Decision {
        let mut steps = DecisionSteps::begin();
        match self.decide_if_blocked(request, blocks, &mut steps).await {
            Some(decision) => decision,
            None => {
                let mode = |index| on_store_error_of(request, index);
                let decision = self.decide_step(&mut steps, request, charges, mode).await;
                self.block(request, blocks, decision, &mut steps).await
            }
        }
    }

    /// Decides about charges that belong to no policy, such as those of a limit that came with the
    /// request ([`Plan::ad_hoc`]): all charges are taken, or none. `on_store_error` is the behaviour
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
        self.decider.decide(charges, terms, |_| on_store_error).await
    }

    /// [`decide_charges`](Self::decide_charges) for callers that cannot wait. Returns `None`, and takes
    /// nothing, if a remote store has to be asked.
    pub fn try_decide_charges(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        match charges.len() {
            1..=Plan::MAX_CHARGES => self.decider.try_decide(charges, DecisionTerms::default()),
            _ => None,
        }
    }

    /// Decides about each charge separately, for callers that have many charges and cannot wait; see
    /// [`Store::settle_each`]. Returns `false`, and does nothing, if a remote store has to be asked.
    pub fn decide_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        !self.is_remote() && self.decider.store().settle_each(charges, report)
    }

    /// Whether the store is remote, so that it pays to have many decisions in flight.
    pub fn is_remote(&self) -> bool {
        self.decider.is_remote()
    }

    /// Whether anything is left for a request. Takes nothing. A caller is denied if the smallest cost
    /// would be denied, with a wait until the quota is full again.
    pub async fn peek(&self, request: &RequestCharges<'_>) -> Decision {
        let request = request.clone().with_cost(Cost::PEEK);
        let mut decision = self.decide(&request).await;
        for index in 0..request.charges().len() {
            let verdict = decision.verdicts().get(index).filter(|_| decision.counts(index));
            if let Some(used_up) = verdict.copied().filter(|it| it.allowed && it.remaining == 0) {
                decision = decision.with_wait(index, used_up.reset_after);
            }
        }
        decision
    }

    /// Denies without asking the store, because earlier callers wait for the units that the charge at
    /// `index` needs. The wait is at least `wait`.
    pub fn turn_away(&self, request: &RequestCharges<'_>, index: usize, wait: Span) -> Decision {
        denial_without_store(request.charges(), DecisionSource::None).turned_away(index, wait)
    }

    fn ask(
        &self,
        request: &RequestCharges<'_>,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Decision> + Send {
        self.decider.decide(charges, terms_of(request), |index| on_store_error_of(request, index))
    }
}

/// One line: how many policies there are, without their counters.
impl<S> fmt::Debug for PlanLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = self.plan.load().policies().len();
        f.debug_struct("PlanLimiter").field("policies", &policies).finish_non_exhaustive()
    }
}

/// The decision for a request without charges, or with too many: it needs neither the store nor a cache.
fn decision_without_store(request: &RequestCharges<'_>) -> Option<Decision> {
    if request.is_empty() {
        return Some(Decision::without_verdicts(true, DecisionSource::None));
    }
    request
        .exceeds_max_charges()
        .then(|| denial_without_store(request.charges(), DecisionSource::None))
}

/// The strictest terms of the request's policies.
fn terms_of(request: &RequestCharges<'_>) -> DecisionTerms {
    let policies = || (0..request.charges().len()).filter_map(|index| request.policy(index));
    let precision = policies().map(PlannedPolicy::precision).next().unwrap_or_default();
    DecisionTerms {
        deadline: policies().map(PlannedPolicy::store_deadline).min(),
        exact: policies().any(|policy| policy.precision() == Precision::Exact),
        // Only a request with a single charge can use a lease, so the first policy is the only one.
        ..DecisionTerms::of(precision)
    }
}

/// The store itself waits for the longest deadline of all policies.
fn set_deadline(store: &impl Store, plan: &Plan) {
    let of_policies = plan.policies().iter().map(PlannedPolicy::store_deadline);
    let longest = of_policies.fold(plan.settings().store_deadline(), Span::max);
    store.set_deadline(longest);
}
