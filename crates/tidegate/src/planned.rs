//! The limiter of a plan: many policies, one store, and what each does when the store fails.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_core::Cost;
use tidegate_policy::{Attributes, OnStoreError, Owed, Plan, PlannedPolicy};
use tidegate_store::{MemoryStore, Store};

use crate::gate::{Gate, denied_unasked};
use crate::{Decision, Source};

/// Decides by a plan, which can be replaced while decisions are made.
///
/// Whoever decides takes the plan once, so that every decision is by one plan, the old or the new.
///
/// ```
/// use tidegate::{Cost, MemoryStore, Plan, PlanLimiter};
/// use tidegate::config::Source;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::config::Problems> {
/// let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
/// let plan = Plan::compile(&Source::new("limits.yaml", text)?)?;
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
    gate: Gate<S>,
}

impl<S: Store> PlanLimiter<S> {
    /// With this plan, until another takes its place.
    pub fn new(plan: Plan, store: S) -> Self {
        Self { plan: ArcSwap::from_pointee(plan), gate: Gate::new(store, 1) }
    }

    /// How many instances share the limits: each has its part of them while the store does not
    /// answer. One unless said.
    #[must_use]
    pub fn expected_nodes(self, nodes: u32) -> Self {
        Self { gate: self.gate.with_nodes(nodes), ..self }
    }

    /// The plan of now. Take it once for each decision.
    pub fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    /// Decides by another plan from now on. Counters stay: a changed limit finds its count.
    pub fn replace(&self, plan: Plan) {
        self.plan.store(Arc::new(plan));
    }

    /// The store it asks.
    pub const fn store(&self) -> &S {
        self.gate.store()
    }

    /// May this request happen? By all policies that are about it.
    pub async fn check<A>(&self, request: &A, cost: Cost) -> Decision
    where
        A: Attributes + Sync + ?Sized,
    {
        let plan = self.plan();
        let owed = plan.charges(request, cost);
        self.settle(&owed).await
    }

    /// Decides what is owed; verdicts come in the order of its charges.
    pub async fn settle(&self, owed: &Owed<'_>) -> Decision {
        let charges = owed.charges();
        if owed.is_empty() {
            return Decision::unsettled(true, Source::None);
        }
        if owed.is_crowded() {
            return denied_unasked(charges, Source::None);
        }
        let mode = |index| {
            owed.policy(index).map_or(OnStoreError::default(), PlannedPolicy::on_store_error)
        };
        self.gate.settle(charges, mode).await
    }
}
