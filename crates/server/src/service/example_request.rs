//! An example of a check, for people who try a server.

use serde_json::json;
use tidegate::config::PlannedPolicy;
use tidegate::{Cost, Plan};

/// The body of a check that a policy of the plan applies to: the first policy whose key is one
/// attribute, or the key attributes of another policy if there is none.
///
/// ```
/// use tidegate::Plan;
/// use tidegate::config::PolicySource;
/// use tidegate_server::example_request;
///
/// let text = "policies: [{ name: api, key: [ip], limits: [5/minute burst 5] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// assert_eq!(example_request(&plan), r#"{"policy": "api", "key": "203.0.113.9"}"#);
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
pub fn example_request(plan: &Plan) -> String {
    let has_one = |policy: &&PlannedPolicy| policy.key().len() == 1;
    if let Some(policy) = plan.policies().iter().find(has_one) {
        let (_, value) = example_key(policy).first().copied().unwrap_or_default();
        return format!(r#"{{"policy": {}, "key": {}}}"#, json!(policy.name()), json!(value));
    }
    // The attributes that a `match` needs are not known here, so a policy that applies without them
    // is preferred.
    let keys = || plan.policies().iter().map(example_key).filter(|key| !key.is_empty());
    let matching = keys().find(|key| !plan.charges(key, Cost::ONE).charges().is_empty());
    let key = matching.or_else(|| keys().next()).unwrap_or_else(|| vec![("user", "alice")]);
    let members: Vec<_> =
        key.iter().map(|(name, value)| format!("{}: {}", json!(name), json!(value))).collect();
    format!(r#"{{"attributes": {{{}}}}}"#, members.join(", "))
}

/// The example, and the attributes that the policies count by, for `/docs/example.json`. Those that
/// they only match are not listed: callers need not know them.
pub(crate) fn examples(plan: &Plan) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in plan.policies().iter().flat_map(PlannedPolicy::key) {
        if names.len() < MOST_NAMES && !names.contains(&name) {
            names.push(name);
        }
    }
    format!(r#"{{"check": {}, "counted_by": {}}}"#, example_request(plan), json!(names))
}

/// Enough to find a misspelt one.
const MOST_NAMES: usize = 20;

fn example_key(policy: &PlannedPolicy) -> Vec<(&str, &'static str)> {
    let value = |name: &str| match name {
        "ip" => "203.0.113.9",
        "path" => "/",
        _ => "alice",
    };
    policy.key().map(|name| (name, value(name))).collect()
}
