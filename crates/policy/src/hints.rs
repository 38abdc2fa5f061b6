//! Advice about limits that do what they say, but hardly what was meant.

use std::collections::BTreeSet;

use tidegate_core::{AlgorithmKind, Rule};

use crate::Plan;
use crate::key_names::is_closed;
use crate::planned::{LimitSet, PlannedPolicy};
use crate::settings::Mode;

/// From here on, what a sliding window takes for the use of the last window is good enough.
const COARSE_BELOW: u64 = 20;

impl Plan {
    /// What a reader of the file might want to change: at most one line for each policy.
    ///
    /// ```
    /// use tidegate::Plan;
    /// use tidegate::config::Source;
    ///
    /// let text = "policies: [{ name: sms, key: [phone], limits: [1/30s] }]";
    /// let plan = Plan::compile(&Source::new("limits.yaml", text)?)?;
    /// assert!(plan.hints()[0].contains("token-bucket or sliding-log"));
    /// # Ok::<(), tidegate::config::Problems>(())
    /// ```
    pub fn hints(&self) -> Vec<String> {
        self.policies.iter().filter_map(hint).collect()
    }
}

/// A sliding window estimates what came lately from two counts. Of a small limit, the estimate is often a
/// whole request too high. Keys that are shared with another limiter are as that one wants them.
fn hint(policy: &PlannedPolicy) -> Option<String> {
    if policy.mode == Mode::Off || policy.key_format().is_some() {
        return None;
    }
    let rules = policy.limit_sets().flat_map(LimitSet::rules);
    let coarse: BTreeSet<String> =
        rules.filter(|rule| is_coarse(rule)).map(|rule| rule.limit.rate()).collect();
    let rates: Vec<String> = coarse.into_iter().take(MOST_RATES).collect();
    (!rates.is_empty()).then(|| {
        format!(
            "policy {:?}: {} as a sliding-window also denies callers that keep to the rate, since it \
             estimates; for a limit below {COARSE_BELOW}, token-bucket or sliding-log do not",
            policy.name(),
            rates.join(", ")
        )
    })
}

fn is_coarse(rule: &Rule) -> bool {
    let limit = &rule.limit;
    let is_small = limit.quota().limit() < COARSE_BELOW && !is_closed(limit);
    limit.kind() == AlgorithmKind::SlidingWindow && is_small
}

/// How many limits of a policy are named.
const MOST_RATES: usize = 3;

#[cfg(test)]
mod tests {
    use crate::{Plan, Source};

    fn hints(policy: &str) -> Vec<String> {
        let text = format!("policies: [{{ name: a, key: [user], {policy} }}]");
        Plan::compile(&Source::new("test", text).unwrap()).unwrap().hints()
    }

    #[test]
    fn small_sliding_windows_are_hinted_at_and_nothing_else_is() {
        for policy in [
            "limits: [1/30s]",
            "limits: [100/minute, 19/day]",
            "limits: [100/minute], tiers: [{ when: { plan: x }, limits: [5/hour] }]",
            "limits: [100/minute], overrides: { 'user=1': [5/hour] }",
            "limits: [5/hour], mode: shadow",
        ] {
            assert_eq!(hints(policy).len(), 1, "{policy}");
        }
        for policy in [
            "limits: [20/minute]",
            "limits: [5/minute burst 5]",
            "limits: [1/30s, 5/hour], algorithm: sliding-log",
            "limits: [{ quota: 5, per: calendar-day }]",
            "limits: [0/second]",
            "limits: [5/hour], mode: off",
            "limits: [5/hour], key_format: 'sw:{entity}:{window_start}'",
        ] {
            assert_eq!(hints(policy), [""; 0], "{policy}");
        }
        let hint = &hints("limits: [1/30s, 5/hour]")[0];
        assert!(hint.starts_with("policy \"a\": 1/30s, 5/1h as a sliding-window"), "{hint}");
    }
}
