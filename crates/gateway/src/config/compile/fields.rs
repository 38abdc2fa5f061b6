//! Compiles header rules, and names that appear in logs.

use tidegate::config::SecretText;
use tidegate_policy::section::{FileSecret, ProblemReport, SourceValue, brief, secret_text};

use crate::config::file::{FileHeader, FileHeaderRule, FileHeaderRules};
use crate::config::{HeaderRules, MAX_VALUE, is_field_value};

pub(super) fn rules(file: Option<&FileHeaderRules>, report: &mut ProblemReport<'_>) -> HeaderRules {
    let Some(file) = file else { return HeaderRules::default() };
    HeaderRules {
        remove: file.remove.iter().filter_map(|name| field_name(name, report)).collect(),
        set: rule_list(&file.set, report),
        add: rule_list(&file.add, report),
    }
}

fn rule_list(file: &[FileHeaderRule], report: &mut ProblemReport<'_>) -> Vec<(String, SecretText)> {
    if let Some(first) = file.get(MAX_FIELDS) {
        report.add(&first.name.at, format!("too many headers: expected at most {MAX_FIELDS}"));
    }
    let mut field = |rule: &FileHeaderRule| {
        let (name, value) = (field_name(&rule.name, report), secret(&rule.value, report));
        Some((name?, value?))
    };
    file.iter().filter_map(&mut field).collect()
}

/// The value of a header, or where to find it.
fn secret(value: &FileSecret, report: &mut ProblemReport<'_>) -> Option<SecretText> {
    match value {
        FileSecret::Text(text) => field_value(text, report).map(SecretText::Text),
        place => secret_text(place, report),
    }
}

pub(super) fn field_list(
    file: &[FileHeader],
    report: &mut ProblemReport<'_>,
) -> Vec<(String, String)> {
    if let Some(first) = file.get(MAX_FIELDS) {
        report.add(&first.name.at, format!("too many headers: expected at most {MAX_FIELDS}"));
    }
    let mut field = |header: &FileHeader| {
        let (name, value) = (field_name(&header.name, report), field_value(&header.value, report));
        Some((name?, value?))
    };
    file.iter().filter_map(&mut field).collect()
}

/// The name of a header in lower case, unless the gateway itself writes that header.
pub(super) fn field_name(
    name: &SourceValue<String>,
    report: &mut ProblemReport<'_>,
) -> Option<String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.value.is_empty() || name.value.len() > 128 || !name.value.chars().all(is_token) {
        let value = brief(&name.value);
        report
            .add(&name.at, format!("{value:?} is not a header name: expected one such as x-team"));
        return None;
    }
    let lower = name.value.to_ascii_lowercase();
    if OWN.contains(&lower.as_str()) {
        report.add(&name.at, format!("{lower:?} is written by the gateway itself"));
        return None;
    }
    Some(lower)
}

pub(super) fn field_value(
    value: &SourceValue<String>,
    report: &mut ProblemReport<'_>,
) -> Option<String> {
    if !is_field_value(&value.value) {
        let expected = format!("at most {MAX_VALUE} bytes without control characters");
        let shown = brief(&value.value);
        report.add(&value.at, format!("{shown:?} is not a header value: expected {expected}"));
        return None;
    }
    Some(value.value.clone())
}

/// A name that appears in logs.
pub(super) fn label(
    name: &SourceValue<String>,
    what: &str,
    report: &mut ProblemReport<'_>,
) -> Option<String> {
    let is_name = (1..=MAX_LABEL).contains(&name.value.len());
    if !is_name || name.value.contains(char::is_control) {
        let value = brief(&name.value);
        let expected = format!("{what} name of 1 to {MAX_LABEL} bytes");
        report.add(&name.at, format!("{value:?}: expected {expected}"));
        return None;
    }
    Some(name.value.clone())
}

/// Headers that frame a message, or describe the way it took.
const OWN: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];
const MAX_FIELDS: usize = 64;
const MAX_LABEL: usize = 128;
