//! Translates limitador files: lists of limits with conditions and variables.

use std::collections::HashSet;

use super::writer::{ImportWriter, PolicyText};
use crate::files::problem::ProblemReport;
use crate::files::yaml::{SourceValue, YamlFields, YamlNode, YamlValue, text, unexpected};

/// Writes a policy for each limit. Conditions that are simple comparisons become a match; a policy with
/// any other condition is switched off, since without it the policy would limit more than intended.
pub(super) fn translate(root: &YamlNode, report: &mut ProblemReport<'_>) -> Option<String> {
    let YamlValue::List(items) = &root.value else {
        unexpected(root, "a list of limits", report);
        return None;
    };
    let limits: Vec<LimitadorLimit> =
        items.iter().filter_map(|item| LimitadorLimit::read(item, report)).collect();
    let namespaces: HashSet<&str> = limits.iter().map(|limit| limit.namespace.as_str()).collect();
    let mut writer = ImportWriter::new("limitador");
    for limit in &limits {
        writer.policy(&limit.policy(namespaces.len() > 1));
    }
    Some(writer.finish())
}

struct LimitadorLimit {
    name: String,
    namespace: String,
    max_value: String,
    seconds: String,
    conditions: Vec<SourceValue<String>>,
    variables: Vec<SourceValue<String>>,
}

impl LimitadorLimit {
    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a limit", FIELDS, report)?;
        let number = |name: &str, report: &mut ProblemReport<'_>| {
            fields.required(name, "a number", report)?;
            let text = fields.text(name, report)?;
            if text.value.parse::<u64>().is_err() {
                report.add(&text.at, format!("{name} is not a whole number: expected one"));
                return None;
            }
            Some(text.value)
        };
        fields.required("namespace", "its name", report);
        let (max_value, seconds) = (number("max_value", report), number("seconds", report));
        let namespace = fields.text("namespace", report)?.value;
        let name = fields.text("name", report).or_else(|| fields.text("id", report));
        let list = |name: &str, report: &mut ProblemReport<'_>| -> Vec<SourceValue<String>> {
            let items = fields.list(name, report).unwrap_or_default();
            items.iter().filter_map(|item| text(item, "an expression", report)).collect()
        };
        Some(Self {
            name: name.map_or_else(|| namespace.clone(), |name| name.value),
            conditions: list("conditions", report),
            variables: list("variables", report),
            namespace,
            max_value: max_value?,
            seconds: seconds?,
        })
    }

    fn policy(&self, names_namespace: bool) -> PolicyText {
        let mut policy = PolicyText::new(&self.name);
        match (names_namespace, is_pattern(&self.namespace)) {
            (false, _) => policy.comments.push(format!("The namespace was {:?}.", self.namespace)),
            (true, true) => switch_off(&mut policy, "namespace", &self.namespace),
            (true, false) => {
                // Envoy's domain is the namespace in limitador, and an attribute here.
                policy.conditions.push(("domain".to_owned(), vec![self.namespace.clone()]));
            }
        }
        for condition in &self.conditions {
            match comparison(&condition.value) {
                Some((attribute, pattern)) => condition_on(&mut policy, attribute, pattern),
                None => switch_off(&mut policy, "condition", &condition.value),
            }
        }
        for variable in &self.variables {
            match attribute(&variable.value) {
                Some(name) => policy.key.push(name),
                None => switch_off(&mut policy, "variable", &variable.value),
            }
        }
        policy.limits.push(format!("{}/{}s", self.max_value, self.seconds));
        policy.algorithm = Some("fixed-window".to_owned());
        policy
    }
}

fn condition_on(policy: &mut PolicyText, attribute: String, pattern: String) {
    match policy.conditions.iter_mut().find(|(name, _)| *name == attribute) {
        Some((_, patterns)) if pattern.starts_with('!') => patterns.push(pattern),
        Some(_) => {
            switch_off(policy, "second condition on", &attribute);
        }
        None => policy.conditions.push((attribute, vec![pattern])),
    }
}

fn switch_off(policy: &mut PolicyText, what: &str, expression: &str) {
    policy.comments.push(format!("Not carried over, so switched off: the {what} {expression:?}."));
    policy.mode = Some("off");
}

/// `descriptors[0]['method'] == 'GET'`, `method != "GET"`.
fn comparison(expression: &str) -> Option<(String, String)> {
    let (left, right, negated) = match expression.split_once("==") {
        Some((left, right)) => (left, right, false),
        None => expression.split_once("!=").map(|(left, right)| (left, right, true))?,
    };
    let value = quoted(right.trim())?;
    if is_pattern(value) {
        return None;
    }
    Some((attribute(left)?, if negated { format!("!{value}") } else { value.to_owned() }))
}

/// Whether a value would be a pattern here.
fn is_pattern(value: &str) -> bool {
    value.contains('*') || value.starts_with('!')
}

/// `user_id`, `descriptors[0].user_id` or `descriptors[0]['user_id']`.
fn attribute(expression: &str) -> Option<String> {
    let expression = expression.trim();
    let name = match expression.strip_prefix("descriptors[0]") {
        None => expression,
        Some(rest) => match rest.strip_prefix('.') {
            Some(name) => name,
            None => rest.strip_prefix('[').and_then(|rest| quoted(rest.strip_suffix(']')?))?,
        },
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    (!name.is_empty() && name.len() <= 64 && name.chars().all(is_name)).then(|| name.to_owned())
}

fn quoted(text: &str) -> Option<&str> {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).filter(|text| !text.contains(['\'', '"', '\\']))
}

const FIELDS: &[&str] =
    &["id", "name", "namespace", "max_value", "seconds", "conditions", "variables"];
