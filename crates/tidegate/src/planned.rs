//! The limiter of a plan: many policies, one store, and what each does when the store fails.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Rule, Timestamp};
use tidegate_policy::{Attributes, Owed, Plan, PlannedPolicy};
use tidegate_store::{LocalStore, MemoryStore, Store, Verdicts};

use crate::limiter::can_never_pass;
use crate::{Decision, OnStoreError, Source};

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
    store: S,
    /// Made when the store fails for the first time.
    stand_in: OnceLock<MemoryStore>,
}

impl<S: Store> PlanLimiter<S> {
    /// With this plan, until another takes its place.
    pub fn new(plan: Plan, store: S) -> Self {
        Self { plan: ArcSwap::from_pointee(plan), store, stand_in: OnceLock::new() }
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
        &self.store
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
        let mut verdicts = Verdicts::new();
        match self.store.settle(charges, &mut verdicts).await {
            Ok(allowed) => Decision::of_charges(charges, Source::Store, |out| {
                *out = verdicts;
                allowed
            }),
            Err(_) => self.without_store(owed),
        }
    }

    /// Each policy has its own answer to a store that has none. One that is closed denies.
    #[cold]
    fn without_store(&self, owed: &Owed<'_>) -> Decision {
        let charges = owed.charges();
        if charges.iter().any(can_never_pass) {
            return denied_unasked(charges, Source::Fallback);
        }
        let mode = |index| {
            owed.policy(index).map_or(OnStoreError::default(), PlannedPolicy::on_store_error)
        };
        let modes: SmallVec<[OnStoreError; 4]> = (0..charges.len()).map(mode).collect();
        let counts = |index: usize, wanted| {
            modes.get(index) == Some(&wanted)
                && charges.get(index).is_some_and(|charge| charge.rule().enforced)
        };
        let any = |wanted| (0..charges.len()).any(|index| counts(index, wanted));
        if any(OnStoreError::Closed) {
            return Decision::unsettled(false, Source::Fallback);
        }
        if !any(OnStoreError::Local) {
            return Decision::unsettled(true, Source::Fallback);
        }
        // Those that are open are watched only.
        let rule = |(index, charge): (usize, &Charge<'_>)| Rule {
            enforced: counts(index, OnStoreError::Local),
            ..*charge.rule()
        };
        let rules: SmallVec<[Rule; 4]> = charges.iter().enumerate().map(rule).collect();
        let local = charges.iter().zip(&rules);
        let local: SmallVec<[Charge<'_>; 4]> = local
            .map(|(charge, rule)| Charge::new(charge.subject(), charge.cost(), rule))
            .collect();
        let stand_in = self.stand_in.get_or_init(MemoryStore::new);
        Decision::of_charges(&local, Source::Fallback, |out| stand_in.settle_now(&local, out))
    }
}

/// Without a look at any counter.
fn denied_unasked(charges: &[Charge<'_>], source: Source) -> Decision {
    Decision::of_charges(charges, source, |out| {
        let fresh =
            |charge: &Charge<'_>| charge.rule().limit.probe_fresh(charge.cost(), Timestamp::ZERO);
        out.extend(charges.iter().map(fresh));
        false
    })
}
