//! Conditions on attributes.

use super::Compiler;
use crate::file;
use crate::matcher::{Condition, Pattern};
use crate::normalise::Form;
use crate::problem::{Report, brief};
use crate::yaml::Spot;

/// Compiles whatever can be compiled; the report lists the rest.
pub(super) fn conditions(
    file: &[file::Condition],
    compiler: &mut Compiler,
    report: &mut Report<'_>,
) -> Vec<Condition> {
    file.iter().filter_map(|file| condition(file, compiler, report)).collect()
}

fn condition(
    file: &file::Condition,
    compiler: &mut Compiler,
    report: &mut Report<'_>,
) -> Option<Condition> {
    let attribute = attribute(&file.attribute, compiler, report)?;
    let form = Form::of(&file.attribute.value, compiler.known.path_case());
    let mut condition = Condition { attribute, ..Condition::default() };
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
        match Pattern::new(pattern, &form) {
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

/// The number of an attribute. Names are bounded, since every request is asked for them.
pub(super) fn attribute(
    name: &Spot<String>,
    compiler: &mut Compiler,
    report: &mut Report<'_>,
) -> Option<usize> {
    let is_name = !name.value.is_empty()
        && name.value.len() <= MAX_ATTRIBUTE
        && !name.value.contains(|c: char| c.is_control() || matches!(c, '=' | ',' | '|'));
    if !is_name {
        let value = brief(&name.value);
        let expected = format!("1 to {MAX_ATTRIBUTE} bytes without \"=\", \",\" or \"|\"");
        report.add(&name.at, format!("{value:?} names no attribute: expected {expected}"));
        return None;
    }
    Some(compiler.known.number(&name.value))
}

const MAX_ATTRIBUTE: usize = 64;
const MAX_PATTERNS: usize = 1_000;
