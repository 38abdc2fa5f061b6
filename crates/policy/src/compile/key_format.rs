//! Templates for the names of keys: whether they are any, and whether they suit the limits.

use tidegate_core::{KeyTemplate, Placeholder, Rule, Span};

use crate::PlannedPolicy;
use crate::planned::LimitSet;
use crate::problem::Report;
use crate::yaml::{At, Spot};

/// Reads a template.
pub(crate) fn read(text: &Spot<String>, report: &mut Report<'_>) -> Option<KeyTemplate> {
    let error = match text.value.parse::<KeyTemplate>() {
        Ok(template) => return Some(template),
        Err(error) => error,
    };
    match error.unknown() {
        // With the name that may have been meant.
        Some(name) => {
            let known: Vec<_> = Placeholder::ALL.iter().map(|known| known.name()).collect();
            report.unknown(&text.at, "placeholder", name, &known);
        }
        None => report.add(&text.at, error.problem()),
    }
    None
}

/// Whether what a policy limits can be kept under such names: a store could only refuse each of its
/// decisions, one by one.
pub(crate) fn check(policy: &PlannedPolicy, at: &At, report: &mut Report<'_>) {
    let Some(template) = &policy.key_format else { return };
    let sets = policy.tiers.iter().map(|tier| &tier.limits).chain(policy.overrides.values());
    let mut sets = sets.chain([&policy.limits]).map(LimitSet::rules);
    if let Some(problem) = sets.find_map(|rules| problem_of(rules, template)) {
        let (template, name) = (template.as_str(), policy.name());
        report.add(at, format!("key_format {template:?} and {name:?}: {problem}"));
    }
}

fn problem_of(rules: &[Rule], template: &KeyTemplate) -> Option<String> {
    if rules.len() > 1 && !template.has(Placeholder::Limit) {
        return Some("several limits would share one key: expected {limit}".to_owned());
    }
    if let Some(window) = shared_window(rules) {
        return Some(format!(
            "two limits of {window} would share one key: expected one for each window"
        ));
    }
    let error = rules.iter().find_map(|rule| template.check(&rule.limit).err())?;
    Some(error.problem().to_owned())
}

/// The window of two limits. Where keys have names, the limits of a policy go by their windows,
/// whatever they count by.
fn shared_window(rules: &[Rule]) -> Option<Span> {
    let windows: Vec<_> = rules.iter().map(|rule| rule.limit.quota().window()).collect();
    let twin = |(index, window): &(usize, &Span)| windows[..*index].contains(window);
    windows.iter().enumerate().find(twin).map(|(_, window)| *window)
}
