//! Compiles the smaller parts of a gateway: API keys, tokens and the access log.

use tidegate::Span;
use tidegate_policy::section::{
    FileChoice, ProblemReport, SourceValue, bounded_span, file_path, permille,
};

use super::fields::field_name;
use super::timeout;
use crate::config::file::{FileAccessLog, FileApiKey, FileJwt, LogKeys};
use crate::config::{AccessLogPlan, ApiKeyLocation, JwtAlgorithm, JwtPlan};

pub(super) fn api_key(file: &FileApiKey, report: &mut ProblemReport<'_>) -> Option<ApiKeyLocation> {
    match (&file.header, &file.query, &file.cookie) {
        (Some(name), None, None) => field_name(name, report).map(ApiKeyLocation::Header),
        (None, Some(name), None) => Some(ApiKeyLocation::Query(name.value.clone())),
        (None, None, Some(name)) => Some(ApiKeyLocation::Cookie(name.value.clone())),
        // Already reported by the reader.
        _ => None,
    }
}

pub(super) fn jwt(file: &FileJwt, report: &mut ProblemReport<'_>) -> Option<JwtPlan> {
    let keys = file_path(&file.keys, report);
    let mut algorithm = |name: &SourceValue<String>| {
        if name.value.eq_ignore_ascii_case("none") {
            report.add(&name.at, "\"none\" is not a signature: anyone could make such a token");
            return None;
        }
        JwtAlgorithm::named(name, report)
    };
    let algorithms = file.algorithms.iter().filter_map(&mut algorithm).collect();
    let leeway = file.leeway.as_ref().and_then(|text| timeout(text, report));
    let max_age = file.max_age.as_ref().and_then(|text| age(text, report));
    Some(JwtPlan {
        keys: keys?.into(),
        algorithms,
        required: file.required.as_ref().is_some_and(|flag| flag.value),
        issuer: file.issuer.as_ref().map(|text| text.value.clone()),
        audience: file.audience.as_ref().map(|text| text.value.clone()),
        leeway: leeway.unwrap_or(Span::from_secs(30)),
        requires_expiry: file.require_exp.as_ref().is_none_or(|flag| flag.value),
        max_age,
    })
}

pub(super) fn access_log(
    file: &FileAccessLog,
    report: &mut ProblemReport<'_>,
) -> Option<AccessLogPlan> {
    let target = file_path(&file.file, report);
    let sample = match &file.sample {
        None => Some(1_000),
        Some(text) => permille(text, 1..=1_000, report),
    };
    let target = target?;
    Some(AccessLogPlan {
        file: (target != "-").then(|| target.into()),
        sample_permille: sample?,
        shows_keys: file.keys.as_ref().is_some_and(|keys| keys.value == LogKeys::Plain),
    })
}

/// How old a token may be.
fn age(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Span> {
    bounded_span(text, "a span", Span::from_secs(1), Span::from_days(400), report)
}
