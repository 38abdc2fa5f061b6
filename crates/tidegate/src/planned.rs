//! The limiter of a plan: many policies, one store, and what each does when the store fails.

use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Fingerprint, Rule};
use tidegate_policy::{
    Attributes, KeyHasher, OnStoreError, Owed, Plan, PlannedPolicy, Precision, Problems,
    Source as Text,
};
use tidegate_store::{MemoryStore, Store};

use crate::gate::{Gate, Terms, denied_unasked};
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
    /// By what a user wrote, or everything that is wrong with it. Keys become fingerprints as the
    /// store wants it: of this process, or the same in all that share the store.
    pub fn load(source: &Text, store: S) -> Result<Self, Problems> {
        Ok(Self::new(Plan::compile_with(hasher_of(&store), source)?, store))
    }

    /// The same for a limiter that decides already: by this text from now on, if it is good.
    pub fn reload(&self, source: &Text) -> Result<(), Problems> {
        self.replace(Plan::compile_with(hasher_of(self.gate.store()), source)?);
        Ok(())
    }

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
        let charges = &owed.named_charges()[..];
        if owed.is_empty() {
            return Decision::unsettled(true, Source::None);
        }
        if owed.is_crowded() {
            return denied_unasked(charges, Source::None);
        }
        let blocks = blocks_of(owed);
        if blocks.is_empty() {
            return self.ask(owed, charges).await;
        }
        if let Some(decision) = self.if_blocked(owed, &blocks).await {
            return decision;
        }
        let decision = self.ask(owed, charges).await;
        if !decision.is_allowed() {
            self.block(owed, &blocks, &decision).await;
        }
        decision
    }

    async fn ask(&self, owed: &Owed<'_>, charges: &[Charge<'_>]) -> Decision {
        let mode = |index| {
            owed.policy(index).map_or(OnStoreError::default(), PlannedPolicy::on_store_error)
        };
        self.gate.settle(charges, terms_of(owed), mode).await
    }

    /// A denial for whoever is blocked: nothing is taken, and the wait is that of the block.
    ///
    /// The block is looked at first, and set last. In between others may come: a few requests at
    /// the very moment of the first denial are denied by the limit and not by the block.
    async fn if_blocked(&self, owed: &Owed<'_>, blocks: &[Blocking<'_>]) -> Option<Decision> {
        let mut longest = None;
        for blocking in blocks {
            let charge = [blocking.charge(Cost::PEEK)];
            let looked = self.gate.settle(&charge, Terms::default(), |_| OnStoreError::Open).await;
            let verdict = looked.verdicts().first().copied();
            if let Some(verdict) = verdict.filter(|verdict| verdict.remaining == 0) {
                longest = longest.max(Some((verdict.reset_after, blocking.first)));
            }
        }
        let (wait, first) = longest?;
        let peeks: SmallVec<[Charge<'_>; 4]> =
            owed.named_charges().iter().map(|charge| charge.with_cost(Cost::PEEK)).collect();
        Some(self.ask(owed, &peeks).await.blocked(first, wait))
    }

    /// Blocks the callers of those policies whose limits denied.
    async fn block(&self, owed: &Owed<'_>, blocks: &[Blocking<'_>], decision: &Decision) {
        for blocking in blocks {
            let name = owed.policy(blocking.first).map(PlannedPolicy::name);
            let denied = decision.verdicts().iter().zip(owed.charges()).enumerate();
            let denied = denied.filter(|(_, (verdict, charge))| {
                !verdict.allowed && charge.rule().enforced && !charge.cost().is_peek()
            });
            let mut denied = denied.map(|(index, _)| owed.policy(index).map(PlannedPolicy::name));
            if denied.any(|other| other == name) {
                let charge = [blocking.charge(Cost::ONE)];
                let _ = self.gate.settle(&charge, Terms::default(), |_| OnStoreError::Open).await;
            }
        }
    }
}

/// The strictest of what its policies ask for. A lease may be exact, so that is what it is.
fn terms_of(owed: &Owed<'_>) -> Terms {
    let policies = || (0..owed.charges().len()).filter_map(|index| owed.policy(index));
    Terms {
        deadline: policies().map(PlannedPolicy::store_deadline).min(),
        exact: policies().any(|policy| policy.precision() == Precision::Exact),
    }
}

fn hasher_of(store: &impl Store) -> KeyHasher {
    store.shared_secret().map_or_else(KeyHasher::of_this_process, KeyHasher::shared)
}

/// A policy of a request that blocks those whom it denies.
struct Blocking<'p> {
    /// The first of its charges.
    first: usize,
    subject: Fingerprint,
    rule: &'p Rule,
}

impl Blocking<'_> {
    fn charge(&self, cost: Cost) -> Charge<'_> {
        Charge::new(self.subject, cost, self.rule)
    }
}

fn blocks_of<'p>(owed: &Owed<'p>) -> SmallVec<[Blocking<'p>; 1]> {
    let mut blocks: SmallVec<[Blocking<'p>; 1]> = SmallVec::new();
    for (first, charge) in owed.charges().iter().enumerate() {
        let block = owed.policy(first).and_then(PlannedPolicy::block);
        let Some(block) = block.filter(|_| charge.rule().enforced) else { continue };
        if blocks.iter().all(|other| other.rule.id != block.rule.id) {
            blocks.push(Blocking { first, subject: charge.subject(), rule: &block.rule });
        }
    }
    blocks
}
