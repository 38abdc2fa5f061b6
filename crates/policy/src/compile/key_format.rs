//! Templates for the names of keys: whether they are any, and whether they suit the limits.

use tidegate_core::{Limit, Rule, Span};

use crate::PlannedPolicy;
use crate::planned::LimitSet;
use crate::problem::Report;
use crate::settings::KeyFormat;
use crate::yaml::{At, Spot};

/// Reads a template. A brace that belongs to the key is doubled; a placeholder in doubled braces is one
/// in a hash tag.
pub(crate) fn read(text: &Spot<String>, report: &mut Report<'_>) -> Option<KeyFormat> {
    let template = text.value.as_str();
    if template.is_empty() || template.len() > 256 {
        report.add(&text.at, "a template of 1 to 256 bytes was expected");
        return None;
    }
    let names = match placeholders(template) {
        Ok(names) => names,
        Err(Fault::Unknown(name)) => {
            report.unknown(&text.at, "placeholder", name, KeyFormat::PLACEHOLDERS);
            return None;
        }
        Err(Fault::Brace(problem)) => {
            report.add(&text.at, problem);
            return None;
        }
    };
    let is_said_twice = |name: &&str| names.iter().filter(|other| *other == name).count() > 1;
    let windows = names.iter().filter(|name| name.starts_with("window")).count();
    if windows > 1 || names.iter().any(is_said_twice) {
        report.add(&text.at, "a placeholder too many: expected each once, and one of a window");
        return None;
    }
    if !names.contains(&"entity") {
        report.add(&text.at, "a template without {entity}: all callers would share one key");
        return None;
    }
    Some(KeyFormat(text.value.clone()))
}

enum Fault<'a> {
    Unknown(&'a str),
    Brace(&'static str),
}

/// The placeholders of a template, in their order.
fn placeholders(template: &str) -> Result<Vec<&str>, Fault<'_>> {
    let (mut names, mut rest) = (Vec::new(), template);
    while let Some(brace) = rest.find(['{', '}']) {
        rest = &rest[brace..];
        if let Some(inner) = rest.strip_prefix("{{") {
            let tag = inner.split_once("}}").filter(|(name, _)| is_placeholder(name));
            names.extend(tag.map(|(name, _)| name));
            rest = tag.map_or(inner, |(_, after)| after);
        } else if let Some(after) = rest.strip_prefix("}}") {
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let (name, after) = inner.split_once('}').ok_or(Fault::Brace(
                "a brace that is not closed: expected {entity} and the like, or {{ for the brace",
            ))?;
            if !is_placeholder(name) {
                return Err(Fault::Unknown(name));
            }
            names.push(name);
            rest = after;
        } else {
            return Err(Fault::Brace(
                "a brace that was never opened: expected {entity} and the like, or }} for the brace",
            ));
        }
    }
    Ok(names)
}

fn is_placeholder(name: &str) -> bool {
    KeyFormat::PLACEHOLDERS.contains(&name)
}

/// Whether what a policy limits can be kept under such names: a store could only refuse each of its
/// decisions, one by one.
pub(crate) fn check(policy: &PlannedPolicy, at: &At, report: &mut Report<'_>) {
    let Some(format) = &policy.key_format else { return };
    let Ok(names) = placeholders(format.template()) else { return };
    let window = names.iter().copied().find(|name| name.starts_with("window"));
    let sets = policy.tiers.iter().map(|tier| &tier.limits).chain(policy.overrides.values());
    for rules in sets.chain([&policy.limits]).map(LimitSet::rules) {
        let problem = match rules {
            [_, _, ..] if !names.contains(&"limit") => {
                Some("several limits would share one key: expected {limit}".to_owned())
            }
            rules => rules.iter().find_map(|rule| problem_of(rule, window)),
        };
        if let Some(problem) = problem {
            let template = format.template();
            report.add(at, format!("key_format {template:?} and {:?}: {problem}", policy.name()));
            return;
        }
    }
}

fn problem_of(rule: &Rule, window: Option<&str>) -> Option<String> {
    let limit = &rule.limit;
    let length = limit.quota().window();
    let is_whole = |unit: Span| length.as_micros().is_multiple_of(unit.as_micros());
    match (limit, window) {
        // Nothing is kept of what never passes.
        _ if limit.capacity() == 0 => None,
        (Limit::TokenBucket(_), _) => Some(
            "limiters have no layout of a token-bucket in common: expected fixed-window, \
             sliding-window or sliding-log"
                .to_owned(),
        ),
        (Limit::SlidingLog(_), Some(window)) => Some(format!(
            "a sliding-log is one sorted set for each entity: expected no {{{window}}}"
        )),
        (Limit::SlidingLog(_), None) if !is_whole(Span::from_millis(1)) => {
            Some(format!("a sorted set keeps milliseconds: expected whole ones, not {length}"))
        }
        (Limit::SlidingLog(_), None) => None,
        (_, None) => Some(format!(
            "a {} has a count for each window: expected {{window_index}}, {{window_start}} or \
             {{window_start_ms}}",
            limit.kind()
        )),
        (_, Some(name)) => {
            let unit = match name {
                "window_start" => Span::from_secs(1),
                "window_start_ms" => Span::from_millis(1),
                _ => length,
            };
            let problem = || {
                format!("windows of {length} have no whole {{{name}}}: expected {{window_index}}")
            };
            (!is_whole(unit)).then(problem)
        }
    }
}
