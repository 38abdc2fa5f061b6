//! Compiles the templates of key names, and checks that they fit the limits.

use tidegate_core::{KeyPlaceholder, KeyTemplate, Rule, Span};

use super::PolicyCompiler;
use crate::PlannedPolicy;
use crate::files::key_names::{KeyNames, admits_nothing};
use crate::files::planned_policy::LimitSet;
use crate::files::problem::ProblemReport;
use crate::files::yaml::{ByteRange, SourceValue};

/// How a policy's keys are named: by its own template, or by the file's.
pub(super) fn names(
    own: Option<&SourceValue<String>>,
    compiler: &PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> KeyNames {
    let template = match own {
        Some(text) if text.value == NONE => return KeyNames::Own,
        Some(text) => read(text, report),
        None => compiler.key_format.clone(),
    };
    template.map_or(KeyNames::StoreDefault, KeyNames::Shared)
}

/// Reads a template.
pub(super) fn read(
    text: &SourceValue<String>,
    report: &mut ProblemReport<'_>,
) -> Option<KeyTemplate> {
    let error = match text.value.parse::<KeyTemplate>() {
        Ok(template) => return Some(template),
        Err(error) => error,
    };
    match error.unknown() {
        // Reported with the name that was probably meant.
        Some(name) => {
            let known: Vec<_> = KeyPlaceholder::ALL.iter().map(|known| known.name()).collect();
            report.add_unknown(&text.at, "placeholder", name, &known);
        }
        None => report.add(&text.at, error.problem()),
    }
    None
}

/// Reports limits that cannot be stored under such names: otherwise a store would have to refuse every
/// single decision.
pub(super) fn check(policy: &PlannedPolicy, at: &ByteRange, report: &mut ProblemReport<'_>) {
    let mut sets = policy.limit_sets();
    if let Some(problem) =
        sets.find_map(|limits| problem(policy.name(), policy.key_format(), limits))
    {
        report.add(at, problem);
    }
}

/// Why limits of a policy that apply together cannot be stored under such names.
pub(super) fn problem(
    policy: &str,
    template: Option<&KeyTemplate>,
    limits: &LimitSet,
) -> Option<String> {
    let template = template?;
    let problem = problem_of(limits.rules(), template)?;
    Some(format!("key_format {:?} and {policy:?}: {problem}", template.as_str()))
}

fn problem_of(rules: &[Rule], template: &KeyTemplate) -> Option<String> {
    if rules.len() > 1 && !template.has(KeyPlaceholder::Limit) {
        return Some("several limits would share one key: expected {limit}".to_owned());
    }
    if let Some(window) = shared_window(rules) {
        return Some(format!(
            "two limits of {window} would share one key: expected one for each window"
        ));
    }
    let mut limits = rules.iter().map(|rule| &rule.limit).filter(|limit| !admits_nothing(limit));
    let error = limits.find_map(|limit| template.check(limit).err())?;
    Some(error.problem().to_owned())
}

/// A window that two limits have. In key names, a window identifies a limit of the policy, whatever its
/// algorithm.
fn shared_window(rules: &[Rule]) -> Option<Span> {
    let windows: Vec<_> = rules.iter().map(|rule| rule.limit.quota().window()).collect();
    let twin = |(index, window): &(usize, &Span)| windows[..*index].contains(window);
    windows.iter().enumerate().find(twin).map(|(_, window)| *window)
}

/// The value for a policy that does not use the file's template.
const NONE: &str = "none";
