//! Compiles single values: choices from a list, spans, shares, networks and the store.

use std::ops::RangeInclusive;

use tidegate_core::{AlgorithmKind, Span};

use crate::SecretText;
use crate::files::file::{self, FilePrecision, FileSecret, SecretPlace};
use crate::files::normalise::{IpNetwork, IpNetworkError};
use crate::files::problem::{ProblemReport, brief};
use crate::files::settings::{DEFAULT_DEADLINE, OnStoreError, Precision};
use crate::files::yaml::SourceValue;

/// Defaults for policies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyDefaults {
    pub(crate) algorithm: Option<AlgorithmKind>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) store_deadline: Span,
    pub(crate) precision: Precision,
}

impl PolicyDefaults {
    pub(crate) fn compile(file: &file::FileDefaults, report: &mut ProblemReport<'_>) -> Self {
        let algorithm = file.algorithm.as_ref().map(|choice| choice.value);
        let mut defaults = Self { algorithm, ..Self::default() };
        if let Some(choice) = &file.on_store_error {
            defaults.on_store_error = choice.value;
        }
        if let Some(text) = &file.store_deadline {
            defaults.store_deadline = deadline(text, report).unwrap_or(DEFAULT_DEADLINE);
        }
        if let Some(file) = &file.precision {
            defaults.precision = precision(file, report).unwrap_or_default();
        }
        defaults
    }
}

impl Default for PolicyDefaults {
    fn default() -> Self {
        Self {
            algorithm: None,
            on_store_error: OnStoreError::default(),
            store_deadline: DEFAULT_DEADLINE,
            precision: Precision::default(),
        }
    }
}

pub(crate) fn networks(
    texts: &[SourceValue<String>],
    report: &mut ProblemReport<'_>,
) -> Vec<IpNetwork> {
    let mut network = |text: &SourceValue<String>| match text.value.parse() {
        Ok(network) => Some(network),
        Err(error) => {
            report.add(&text.at, IpNetworkError::to_string(&error));
            None
        }
    };
    texts.iter().filter_map(&mut network).collect()
}

/// Below these bounds no store could answer; above them a request would hang.
pub(crate) fn deadline(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Span> {
    bounded_span(text, "a deadline", Span::from_millis(1), Span::from_secs(10), report)
}

pub(crate) fn block_for(
    text: &SourceValue<String>,
    report: &mut ProblemReport<'_>,
) -> Option<Span> {
    bounded_span(text, "a block", Span::from_millis(1), Span::from_days(400), report)
}

/// A span within bounds. `what` says in messages what it is: a deadline.
pub fn bounded_span(
    text: &SourceValue<String>,
    what: &str,
    least: Span,
    most: Span,
    report: &mut ProblemReport<'_>,
) -> Option<Span> {
    match text.value.parse::<Span>() {
        Err(error) => {
            report.add(&text.at, error.to_string());
            None
        }
        Ok(span) if span < least || span > most => {
            let value = brief(&text.value);
            report.add(&text.at, format!("{value:?}: expected {what} of {least} to {most}"));
            None
        }
        Ok(span) => Some(span),
    }
}

pub(crate) fn precision(
    file: &SourceValue<FilePrecision>,
    report: &mut ProblemReport<'_>,
) -> Option<Precision> {
    match &file.value {
        FilePrecision::Name(name) => match name.as_str() {
            "exact" => Some(Precision::Exact),
            "cached_deny" => Some(Precision::CachedDeny),
            "leased" => {
                report.add(&file.at, "leased needs a bound: expected { leased: { max_over: 5% } }");
                None
            }
            other => {
                let known = ["exact", "cached_deny", "leased"];
                report.add_unknown(&file.at, "precision", other, &known);
                None
            }
        },
        FilePrecision::Leased { leased } => permille(leased, Precision::MAX_OVER_PERMILLE, report)
            .map(|max_over_permille| Precision::Leased { max_over_permille }),
    }
}

/// `5%` or `0.5%`.
pub fn permille(
    text: &SourceValue<String>,
    within: RangeInclusive<u16>,
    report: &mut ProblemReport<'_>,
) -> Option<u16> {
    let permille = text.value.strip_suffix('%').and_then(|number| {
        let (whole, tenths) = number.trim().split_once('.').unwrap_or((number.trim(), "0"));
        let digit = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let valid = digit(whole) && digit(tenths) && tenths.len() == 1;
        if !valid {
            return None;
        }
        let (whole, tenths) = (whole.parse::<u16>().ok()?, tenths.parse::<u16>().ok()?);
        whole.checked_mul(10)?.checked_add(tenths)
    });
    let permille = permille.filter(|permille| within.contains(permille));
    if permille.is_none() {
        let (value, most) = (brief(&text.value), within.end() / 10);
        report.add(&text.at, format!("{value:?}: expected a share of 0.1% to {most}%"));
    }
    permille
}

/// A secret, or where to find it.
pub fn secret_text(file: &FileSecret, report: &mut ProblemReport<'_>) -> Option<SecretText> {
    match file {
        FileSecret::Text(text) => Some(SecretText::Text(text.value.clone())),
        FileSecret::Place(SecretPlace { file: Some(path), .. }) => {
            file_path(path, report).map(|path| SecretText::File(path.into()))
        }
        FileSecret::Place(SecretPlace { env, .. }) => {
            let name = env.as_ref()?;
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_name = (1..=MAX_VARIABLE).contains(&name.value.len());
            if !is_name || !name.value.chars().all(is_part) {
                let value = brief(&name.value);
                let expected = "expected the name of a variable, such as API_KEY";
                report.add(&name.at, format!("{value:?}: {expected}"));
                return None;
            }
            Some(SecretText::Env(name.value.clone()))
        }
    }
}

/// The path of a file.
pub fn file_path(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<String> {
    if text.value.is_empty() || text.value.len() > 4_096 {
        report.add(&text.at, format!("{:?}: expected the path of a file", brief(&text.value)));
        return None;
    }
    Some(text.value.clone())
}

/// Checks only the scheme; the store checks the rest. The value may hold a password, so it is not shown.
pub(crate) fn store(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<String> {
    let scheme = text.value.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        None if text.value == "memory" => Some(text.value.clone()),
        Some(scheme) if SCHEMES.contains(&scheme) => Some(text.value.clone()),
        scheme => {
            let scheme = scheme.map(|scheme| format!(" {:?}", brief(scheme))).unwrap_or_default();
            report.add_without_line(&text.at, format!("unknown store{scheme}: expected {STORES}"));
            None
        }
    }
}

const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "redis+unix",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];
const STORES: &str = "memory, redis://, rediss://, redis+unix://, redis+sentinel://, \
    rediss+sentinel://, redis+cluster://, rediss+cluster://";
const MAX_VARIABLE: usize = 128;
