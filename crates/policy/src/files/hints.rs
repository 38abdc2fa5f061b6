//! Advice about limits that are valid but probably not what their author wants.

use std::collections::BTreeSet;

use tidegate_core::{Rule, Span};

use crate::Plan;
use crate::files::compile::is_caller_supplied;
use crate::files::key_names::admits_nothing;
use crate::files::normalise::NormalForm;
use crate::files::planned_policy::{LimitSet, PlannedPolicy};
use crate::files::settings::PolicyMode;
use crate::files::subject::KeyPart;

/// The smallest limit for which the estimate of a sliding window is good enough.
const COARSE_BELOW: u64 = 20;

impl Plan {
    /// Suggested changes to the file: at most one line for each policy.
    ///
    /// ```
    /// use tidegate::Plan;
    /// use tidegate::config::PolicySource;
    ///
    /// let text = "policies: [{ name: sms, key: [phone], limits: [1/30s] }]";
    /// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
    /// assert!(plan.hints()[0].contains("token-bucket or sliding-log"));
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn hints(&self) -> Vec<String> {
        self.policies
            .iter()
            .filter_map(|policy| coarse_hint(policy).or_else(|| caller_key_hint(policy)))
            .collect()
    }
}

/// Callers can make up a new key with each request, and each key is stored until its window ends.
fn caller_key_hint(policy: &PlannedPolicy) -> Option<String> {
    let is_made_up = |part: &KeyPart| {
        let is_free = part.name.as_ref() == "path" || is_caller_supplied(&part.name);
        is_free && !matches!(part.form, NormalForm::Route(_))
    };
    if policy.mode == PolicyMode::Off || policy.key.is_empty() || !policy.key.iter().all(is_made_up)
    {
        return None;
    }
    let rules = policy.limit_sets().flat_map(LimitSet::rules);
    let longest = rules.map(|rule| rule.limit.period()).max().filter(|period| *period >= LONG)?;
    let names: Vec<&str> = policy.key().take(MOST_RATES).collect();
    Some(format!(
        "policy {:?}: callers can make up {}, and each made-up key is stored for {longest}; to \
         store fewer, add ip or a user to the key, use \"as: route\" for a path, or a shorter window",
        policy.name(),
        names.join(" and ")
    ))
}

/// A sliding window estimates recent use from two counts. For a small limit, the estimate is often a whole
/// request too high. With keys that are shared with another limiter, the algorithm is not ours to choose.
fn coarse_hint(policy: &PlannedPolicy) -> Option<String> {
    if policy.mode == PolicyMode::Off || policy.key_format().is_some() {
        return None;
    }
    let rules = policy.limit_sets().flat_map(LimitSet::rules);
    let coarse: BTreeSet<String> =
        rules.filter(|rule| is_coarse(rule)).map(|rule| rule.limit.rate()).collect();
    let rates: Vec<String> = coarse.into_iter().take(MOST_RATES).collect();
    (!rates.is_empty()).then(|| {
        format!(
            "policy {:?}: a sliding-window of {} also denies callers that keep to the rate, because it \
             only estimates; for limits below {COARSE_BELOW}, use token-bucket or sliding-log",
            policy.name(),
            rates.join(", ")
        )
    })
}

fn is_coarse(rule: &Rule) -> bool {
    let limit = &rule.limit;
    let is_small = limit.quota().limit() < COARSE_BELOW && !admits_nothing(limit);
    limit.kind().estimates() && is_small
}

/// From this window on, made-up keys can fill a store that is large enough for real ones.
const LONG: Span = Span::from_secs(3_600);
/// The most limits, or attributes, that a hint lists.
const MOST_RATES: usize = 3;

#[cfg(test)]
mod tests {
    use crate::{Plan, PolicySource};

    fn hints(policy: &str) -> Vec<String> {
        let text = format!("policies: [{{ name: a, key: [user], {policy} }}]");
        Plan::compile(&PolicySource::new("test", text).unwrap()).unwrap().hints()
    }

    #[test]
    fn attack_11_a_key_that_callers_make_up_is_hinted_at_if_it_lasts() {
        let hints = |fields: &str| {
            let text = format!("policies: [{{ name: a, {fields} }}]");
            Plan::compile(&PolicySource::new("test", text).unwrap()).unwrap().hints()
        };
        for fields in [
            "key: ['query:q'], limits: [100/day]",
            "key: ['header:x-id', 'cookie:sid'], limits: [100/minute, 1000/hour]",
            "key: [path], limits: [100/day]",
        ] {
            let hints = hints(fields);
            assert!(hints.len() == 1 && hints[0].contains("callers can make up"), "{hints:?}");
        }
        for fields in [
            "key: ['query:q'], limits: [100/minute]",
            "key: ['query:q', ip], limits: [100/day]",
            "key: [{ attribute: path, as: route, routes: ['/a/{b}'] }], limits: [100/day]",
            "key: [user], limits: [100/day]",
            "key: [], limits: [100/day]",
            "key: ['query:q'], limits: [100/day], mode: off",
        ] {
            assert_eq!(hints(fields), [""; 0], "{fields}");
        }
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
        assert!(hint.starts_with("policy \"a\": a sliding-window of 1/30s, 5/hour also"), "{hint}");
    }
}
