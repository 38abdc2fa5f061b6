//! Compiles conditions on attributes.

use crate::files::attributes::PlanAttributes;
use crate::files::file;
use crate::files::matcher::{MatchCondition, ValuePattern};
use crate::files::normalise::NormalForm;
use crate::files::problem::{ProblemReport, brief};
use crate::files::yaml::SourceValue;

/// Compiles every valid condition; the report lists the problems.
pub(crate) fn conditions(
    file: &[file::FileCondition],
    attributes: &mut PlanAttributes,
    report: &mut ProblemReport<'_>,
) -> Vec<MatchCondition> {
    file.iter().filter_map(|file| condition(file, attributes, report)).collect()
}

fn condition(
    file: &file::FileCondition,
    attributes: &mut PlanAttributes,
    report: &mut ProblemReport<'_>,
) -> Option<MatchCondition> {
    let number = attribute(&file.attribute, attributes, report)?;
    let form = NormalForm::of(&file.attribute.value, attributes.path_case());
    let mut condition = MatchCondition { attribute: number, ..MatchCondition::default() };
    if file.patterns.is_empty() {
        report.add(&file.attribute.at, "no pattern: expected at least one");
    }
    if file.patterns.len() > MAX_PATTERNS {
        let count = file.patterns.len();
        report
            .add(&file.attribute.at, format!("{count} patterns: expected at most {MAX_PATTERNS}"));
        return None;
    }
    for text in &file.patterns {
        let (negated, pattern) = match text.value.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text.value.as_str()),
        };
        match ValuePattern::new(pattern, &form) {
            Ok(pattern) if negated => condition.none_of.push(pattern),
            Ok(pattern) => condition.any_of.push(pattern),
            Err(problem) => {
                let name = &file.attribute.value;
                report.add(&text.at, format!("{name} {:?}: {problem}", brief(&text.value)));
            }
        }
    }
    Some(condition)
}

/// The number of an attribute. Names are bounded, since they are looked up in every request.
pub(super) fn attribute(
    name: &SourceValue<String>,
    attributes: &mut PlanAttributes,
    report: &mut ProblemReport<'_>,
) -> Option<usize> {
    let is_name = !name.value.is_empty()
        && name.value.len() <= MAX_ATTRIBUTE
        && !name.value.contains(|c: char| c.is_control() || matches!(c, '=' | ',' | '|'));
    if !is_name {
        let value = brief(&name.value);
        let expected = format!("1 to {MAX_ATTRIBUTE} bytes without \"=\", \",\" or \"|\"");
        report.add(&name.at, format!("{value:?} is not an attribute name: expected {expected}"));
        return None;
    }
    Some(attributes.number(&name.value))
}

const MAX_ATTRIBUTE: usize = 64;
const MAX_PATTERNS: usize = 1_000;
