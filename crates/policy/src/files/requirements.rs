//! The attributes without which a policy does not apply.

use super::matcher::MatchCondition;
use crate::Plan;

impl Plan {
    /// The attributes without which the policy `name` applies to no request: those of its key, and those
    /// that its conditions need. Empty if there is no such policy.
    ///
    /// A program that supplies attributes can find policies that would never apply.
    ///
    /// ```
    /// use tidegate::Plan;
    /// use tidegate::config::PolicySource;
    ///
    /// let text = "policies: [{ name: api, match: { host: a, plan: '!free' }, key: [user], limits: [1/s] }]";
    /// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
    /// // A request without a plan is not free.
    /// assert_eq!(plan.required_attributes("api"), ["user", "host"]);
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn required_attributes(&self, name: &str) -> Vec<&str> {
        let Some(policy) = self.policy(name) else { return Vec::new() };
        let conditions = policy.conditions.iter().chain(&policy.indexed);
        let needs_value = |condition: &&MatchCondition| !condition.any_of.is_empty();
        let of_conditions = conditions
            .filter(needs_value)
            .filter_map(|condition| self.attributes().nth(condition.attribute));
        let mut names: Vec<&str> = policy.key().collect();
        for name in of_conditions {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
