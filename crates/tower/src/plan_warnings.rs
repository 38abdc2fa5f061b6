//! Warns of policies that cannot take effect in a layer, before any request arrives.

use tidegate_limiter::Plan;
use tidegate_limiter::config::PolicyMode;

use crate::config::LayerConfig;

/// What is likely a mistake in a plan behind a layer. `is_shared` is whether the counters are in a store that
/// other processes use.
pub(crate) fn plan_warnings(plan: &Plan, config: &LayerConfig, is_shared: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(url) = plan.settings().store().filter(|url| !is_shared && *url != "memory") {
        warnings.push(format!(
            "`store: {}` in the file is ignored: this layer counts in the memory of this process. Use \
             RateLimitLayer::policy_file_in with a store, or PlanLimiter::load",
            scheme_of(url),
        ));
    }
    for policy in plan.policies().iter().filter(|policy| policy.mode() != PolicyMode::Off) {
        let required = plan.required_attributes(policy.name());
        let missing: Vec<_> =
            required.into_iter().filter(|name| !is_supplied(name, config)).collect();
        if !missing.is_empty() {
            let (name, missing) = (policy.name(), missing.join("`, `"));
            warnings.push(format!(
                "policy {name} limits nobody: it needs `{missing}`, which nothing supplies. Use \
                 RateLimitLayer::attribute(\"{}\", ...)",
                missing.split('`').next().unwrap_or_default(),
            ));
        }
    }
    warnings
}

/// Whether a request can have this attribute: the layer reads it, or the program supplies it.
fn is_supplied(name: &str, config: &LayerConfig) -> bool {
    let is_read = match name.split_once(':') {
        Some((kind, _)) => matches!(kind, "query" | "header" | "cookie"),
        None => {
            matches!(name, "ip" | "method" | "scheme" | "host" | "path" | "api_key")
                || cfg!(feature = "axum") && name == "route"
        }
    };
    is_read || config.attributes.iter().any(|(other, _)| &**other == name)
}

/// The scheme of an address. The rest may contain a password.
fn scheme_of(url: &str) -> String {
    url.split_once("://").map_or_else(|| url.to_owned(), |(scheme, _)| format!("{scheme}://..."))
}

#[cfg(test)]
mod tests {
    use tidegate_limiter::config::PolicySource;
    use tidegate_limiter::{MemoryStore, PlanLimiter};

    use super::*;
    use crate::RequestKey;
    use crate::backend::sealed::SealedIntoBackend;

    fn warnings(text: &str, attributes: &[&str], is_shared: bool) -> Vec<String> {
        let source = PolicySource::new("test", text).unwrap();
        let limiter = PlanLimiter::load(&source, MemoryStore::new()).unwrap();
        let plan = limiter.plan();
        let mut config = LayerConfig::new(limiter.into_backend());
        config.attributes =
            attributes.iter().map(|name| ((*name).into(), RequestKey::everybody())).collect();
        plan_warnings(&plan, &config, is_shared)
    }

    #[test]
    fn a_policy_whose_attribute_nobody_supplies_is_reported() {
        let text = "
policies:
  - { name: per-ip, match: { path: /a, 'header:x-a': b }, key: [ip, 'cookie:c'], limits: [1/s] }
  - { name: per-user, key: [user], limits: [1/s] }
  - { name: pro, match: { plan: pro, host: '!a' }, key: [ip], limits: [1/s] }
  - { name: off, key: [nothing], limits: [1/s], mode: off }";
        let found = warnings(text, &[], false);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("policy per-user limits nobody: it needs `user`"),
            "{found:?}"
        );
        assert!(found[1].contains("policy pro") && found[1].contains("attribute(\"plan\""));
        assert_eq!(warnings(text, &["user", "plan"], false), [""; 0]);
    }

    #[test]
    fn a_store_that_is_ignored_is_reported_without_its_password() {
        let text = "
store: redis://:hunter2@cache
policies: [{ name: a, key: [ip], limits: [1/s] }]";
        let found = warnings(text, &[], false);
        assert!(found[0].starts_with("`store: redis://...` in the file is ignored"), "{found:?}");
        assert_eq!(warnings(text, &[], true), [""; 0]);
    }
}
