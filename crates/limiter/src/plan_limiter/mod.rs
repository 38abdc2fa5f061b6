//! The limiter of a plan: many policies on one store, each with its own behaviour when the store fails.

mod block;
mod decision_steps;
mod intent;
mod loading;
mod one_policy;
mod refund;
mod watch;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use tidegate_core::{Charge, Cost, Span, Verdict};
use tidegate_policy::{Attributes, Plan, PlannedPolicy, Precision, RequestCharges};
use tidegate_store::{MemoryStore, Promise, Store};

use self::block::{blocks_of, has_blocks};
use self::decision_steps::{DecisionSteps, on_store_error_of};
pub use self::intent::ChargeIntent;
pub use self::watch::{PlanFileEvent, PlanWatch};
use crate::decider::{Decider, DecisionTerms, PendingDecision, denial_without_store};
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
        let plan = plan.naming_keys(store.profile().names_keys);
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
        self.plan.store(Arc::new(plan.naming_keys(self.decider.store().profile().names_keys)));
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
        self.decide(&charges, ChargeIntent::Take).await
    }

    /// Decides about a request's charges; verdicts come in their order. What is known without waiting is
    /// there at once: by a store in this process, a lease or a cached denial.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{ChargeIntent, Cost, MemoryStore, PlanLimiter, Promise};
    ///
    /// let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
    /// let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
    /// let plan = limiter.plan();
    /// let charges = plan.charges(&[("user", "42")], Cost::ONE);
    /// for is_allowed in [true, false] {
    ///     let Promise::Ready(decision) = limiter.decide(&charges, ChargeIntent::Take) else {
    ///         unreachable!("the store is in this process");
    ///     };
    ///     assert_eq!(decision.is_allowed(), is_allowed);
    /// }
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn decide(
        &self,
        request: &RequestCharges<'_>,
        intent: ChargeIntent<'_>,
    ) -> Promise<Decision, impl Future<Output = Decision> + Send> {
        // Whatever is rare and large is boxed, so that it does not enlarge every decision's future.
        let (mut pending, mut peeks) = (None, None);
        match intent {
            ChargeIntent::Take => match self.begin(request) {
                Promise::Ready(decision) => return Promise::Ready(decision),
                Promise::Later(rest) => pending = Some(rest),
            },
            ChargeIntent::Peek => {
                let free = request.clone().with_cost(Cost::PEEK);
                match self.begin(&free) {
                    Promise::Ready(decision) => {
                        return Promise::Ready(decision.denied_if_used_up());
                    }
                    Promise::Later(rest) => (pending, peeks) = (Some(rest), Some(Box::new(free))),
                }
            }
            _ => {}
        }
        Promise::Later(async move {
            match (pending, peeks) {
                (None, _) => Box::pin(self.decide_by(request, intent)).await,
                (Some(pending), None) => self.finish(request, pending).await,
                (Some(pending), Some(peeks)) => {
                    Box::pin(self.finish(&peeks, pending)).await.denied_if_used_up()
                }
            }
        })
    }

    /// The first part of a decision, which needs no waiting.
    fn begin(&self, request: &RequestCharges<'_>) -> Promise<Decision, PlanPending> {
        if request.is_empty() {
            let decision = Decision::without_verdicts(true, DecisionSource::None);
            return Promise::Ready(decision);
        }
        if request.exceeds_max_charges() {
            let denial = denial_without_store(request.charges(), DecisionSource::None);
            return Promise::Ready(denial);
        }
        if request.is_named() || has_blocks(request) {
            return Promise::Later(PlanPending::InSteps);
        }
        match self.decider.begin(request.charges(), || self.terms_of(request)) {
            Promise::Ready(decision) => Promise::Ready(decision),
            Promise::Later(pending) => Promise::Later(PlanPending::AtStore(pending)),
        }
    }

    /// The rest of a decision.
    async fn finish(&self, request: &RequestCharges<'_>, pending: PlanPending) -> Decision {
        match pending {
            PlanPending::AtStore(pending) => {
                let mode = |index| on_store_error_of(request, index);
                self.decider.finish(pending, request.charges(), mode).await
            }
            PlanPending::InSteps => Box::pin(self.decide_in_steps(request)).await,
        }
    }

    async fn take(&self, request: &RequestCharges<'_>) -> Decision {
        match self.begin(request) {
            Promise::Ready(decision) => decision,
            Promise::Later(pending) => self.finish(request, pending).await,
        }
    }

    /// Decides about charges with names, or of policies that block the callers they deny.
    async fn decide_in_steps(&self, request: &RequestCharges<'_>) -> Decision {
        let named = request.is_named().then(|| request.named_charges());
        let charges = named.as_deref().unwrap_or(request.charges());
        let mode = |index| on_store_error_of(request, index);
        let blocks = blocks_of(request);
        if blocks.is_empty() {
            return self.decider.decide(charges, self.terms_of(request), mode).await;
        }
        let mut steps = DecisionSteps::begin();
        match self.decide_if_blocked(request, &blocks, &mut steps).await {
            Some(decision) => decision,
            None => {
                let decision = self.decide_step(&mut steps, request, charges, mode).await;
                self.block(request, &blocks, decision, &mut steps).await
            }
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

    /// The strictest terms of the request's policies. A limit that came with the request has the plan's.
    fn terms_of(&self, request: &RequestCharges<'_>) -> DecisionTerms {
        let policies = || (0..request.charges().len()).map(|index| request.policy(index));
        let deadline = |policy: Option<&PlannedPolicy>| match policy {
            Some(policy) => policy.store_deadline(),
            None => self.plan.load().settings().store_deadline(),
        };
        let precision = policies().flatten().map(PlannedPolicy::precision).next();
        DecisionTerms {
            deadline: policies().map(deadline).min(),
            exact: policies().flatten().any(|policy| policy.precision() == Precision::Exact),
            // Only a request with a single charge can use a lease, so the first policy is the only one.
            ..DecisionTerms::of(precision.unwrap_or_default())
        }
    }
}

/// One line: how many policies there are, without their counters.
impl<S> fmt::Debug for PlanLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = self.plan.load().policies().len();
        f.debug_struct("PlanLimiter").field("policies", &policies).finish_non_exhaustive()
    }
}

/// What a decision has to wait for.
#[derive(Clone, Copy, Debug)]
enum PlanPending {
    /// A single answer of the store.
    AtStore(PendingDecision),
    /// More than that, or charges with names.
    InSteps,
}

/// The store itself waits for the longest deadline of all policies.
fn set_deadline(store: &impl Store, plan: &Plan) {
    let of_policies = plan.policies().iter().map(PlannedPolicy::store_deadline);
    let longest = of_policies.fold(plan.settings().store_deadline(), Span::max);
    store.set_deadline(longest);
}
