//! Checks a single policy of a plan, by its name.

use tidegate_core::Cost;
use tidegate_policy::Attributes;
use tidegate_store::Store;

use super::PlanLimiter;
use crate::{ChargeIntent, Decision};

impl<S: Store> PlanLimiter<S> {
    /// May this happen, by the policy `name` alone? Its conditions are not looked at: the caller has chosen it.
    /// `None` if the plan has no policy of that name.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{Cost, MemoryStore, PlanLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = "policies: [{ name: exports, key: [user], limits: [10/day] }]";
    /// let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
    ///
    /// let decision = limiter.check_policy("exports", &[("user", "42")], Cost::from(4)).await;
    /// assert_eq!(decision.and_then(|decision| decision.remaining()), Some(6));
    /// assert!(limiter.check_policy("imports", &[("user", "42")], Cost::ONE).await.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_policy<A>(&self, name: &str, request: &A, cost: Cost) -> Option<Decision>
    where
        A: Attributes + Sync + ?Sized,
    {
        let plan = self.plan();
        let charges = plan.charges_of(name, request, cost)?;
        Some(self.decide(&charges, ChargeIntent::Take).await)
    }
}
