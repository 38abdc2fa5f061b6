//! From a configuration file to the plan of a limiter.

use tidegate_policy::{
    AmendedPlan, Amendment, FileProblems, KeyHasher, Plan, PolicySource as Text,
};
use tidegate_store::Store;

use super::PlanLimiter;

impl<S: Store> PlanLimiter<S> {
    /// Compiles a configuration file, or reports everything that is wrong with it. Keys become
    /// fingerprints the way the store needs them: private to this process, or the same in all
    /// processes that share the store.
    ///
    /// # Errors
    ///
    /// [`FileProblems`]: every problem of the file, with its line, its column and what was expected.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{MemoryStore, PlanLimiter};
    ///
    /// let text = "policies: [{ name: api, key: [user], limits: [many/hour] }]";
    /// let source = PolicySource::new("limits.yaml", text)?;
    /// let problems = PlanLimiter::load(&source, MemoryStore::new()).unwrap_err();
    /// assert!(problems.to_string().contains("limits.yaml:1:"));
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn load(source: &Text, store: S) -> Result<Self, FileProblems> {
        Ok(Self::new(Plan::compile_with(hasher_of(&store), source)?, store))
    }

    /// [`load`](Self::load) for a limiter in use: decides by this text from now on, if it is valid.
    ///
    /// # Errors
    ///
    /// [`FileProblems`] if the text is invalid. The old plan stays in use then.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::{Cost, MemoryStore, PlanLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::config::FileProblems> {
    /// let file = |limit: &str| {
    ///     let text = format!("policies: [{{ name: api, key: [user], limits: [{limit}] }}]");
    ///     PolicySource::new("limits.yaml", text)
    /// };
    /// let limiter = PlanLimiter::load(&file("1/hour")?, MemoryStore::new())?;
    /// let request = [("user", "42")];
    /// assert!(limiter.check(&request, Cost::ONE).await.is_allowed());
    /// limiter.reload(&file("3/hour")?)?;
    /// // What was taken under the old limit counts under the new one.
    /// assert_eq!(limiter.check(&request, Cost::ONE).await.remaining(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reload(&self, source: &Text) -> Result<(), FileProblems> {
        self.replace(Plan::compile_with(hasher_of(self.decider.store()), source)?);
        Ok(())
    }

    /// Compiles a file with amendments into a plan for [`replace`](Self::replace), with this store's
    /// fingerprints.
    pub fn compile(
        &self,
        source: &Text,
        amendments: &[Amendment],
    ) -> Result<AmendedPlan, FileProblems> {
        Plan::compile_amended(hasher_of(self.decider.store()), source, amendments)
    }
}

fn hasher_of(store: &impl Store) -> KeyHasher {
    store.profile().shared_secret.map_or_else(KeyHasher::of_this_process, KeyHasher::shared)
}
