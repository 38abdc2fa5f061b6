//! Compiles the services of a gateway.

use tidegate::Span;
use tidegate_policy::section::{ProblemReport, SourceValue, bounded_span, brief, whole};

use super::fields::label;
use super::timeout;
use crate::config::file::{FileGateway, FileHealthCheck, FileTimeouts, FileUploads, FileUpstream};
use crate::config::{HealthCheck, UploadRules, UpstreamPlan, UpstreamTimeouts, UpstreamUrl};

pub(super) fn compile(file: &FileGateway, report: &mut ProblemReport<'_>) -> Vec<UpstreamPlan> {
    if let Some(first) = file.upstreams.get(MAX_UPSTREAMS) {
        report.add(&first.name.at, format!("too many services: expected at most {MAX_UPSTREAMS}"));
        return Vec::new();
    }
    let common = timeouts(file.timeouts.as_ref(), UpstreamTimeouts::DEFAULT, report);
    let slow = uploads(file.uploads.as_ref(), UploadRules::DEFAULT, report);
    file.upstreams.iter().filter_map(|file| upstream(file, (common, slow), report)).collect()
}

fn upstream(
    file: &FileUpstream,
    (common, slow): (UpstreamTimeouts, UploadRules),
    report: &mut ProblemReport<'_>,
) -> Option<UpstreamPlan> {
    let name = label(&file.name, "a service", report);
    let fields = &file.fields;
    let endpoints = endpoints(&fields.urls, report);
    let mut upstream = UpstreamPlan::new(name?, endpoints);
    upstream.timeouts = timeouts(fields.timeouts.as_ref(), common, report);
    upstream.uploads = uploads(fields.uploads.as_ref(), slow, report);
    upstream.health = fields.health.as_ref().and_then(|check| health(check, report));
    upstream.preserves_host = fields.preserve_host.as_ref().is_none_or(|flag| flag.value);
    if let Some(text) = &fields.max_requests {
        let most =
            whole(text, "a number of requests", report).and_then(|count| count.try_into().ok());
        upstream.max_requests = most.unwrap_or_default();
        if most == Some(0) {
            report.add(&text.at, "no request would pass: expected at least 1");
        }
    }
    upstream.ca = fields.ca.as_ref().map(|path| path.value.clone().into());
    Some(upstream)
}

fn endpoints(urls: &[SourceValue<String>], report: &mut ProblemReport<'_>) -> Vec<UpstreamUrl> {
    let mut endpoints = Vec::new();
    if let Some(first) = urls.get(MAX_ENDPOINTS) {
        report.add(&first.at, format!("too many addresses: expected at most {MAX_ENDPOINTS}"));
    }
    for url in urls.iter().take(MAX_ENDPOINTS) {
        match UpstreamUrl::read(&url.value) {
            // It may hold a password.
            Err(why) if url.value.contains('@') => {
                report.add_without_line(&url.at, without_user(&why));
            }
            Err(why) => report.add(&url.at, why),
            Ok(endpoint) if endpoints.contains(&endpoint) => {
                report.add(&url.at, format!("{:?} occurs twice", brief(&url.value)));
            }
            Ok(endpoint) => endpoints.push(endpoint),
        }
    }
    endpoints
}

fn without_user(why: &str) -> &str {
    why.split_once("\": ").map_or(why, |(_, rest)| rest)
}

fn timeouts(
    file: Option<&FileTimeouts>,
    common: UpstreamTimeouts,
    report: &mut ProblemReport<'_>,
) -> UpstreamTimeouts {
    let Some(file) = file else { return common };
    let mut span = |text: &Option<SourceValue<String>>, default: Span| {
        let text = text.as_ref();
        text.and_then(|text| timeout(text, report)).unwrap_or(default)
    };
    UpstreamTimeouts {
        connect: span(&file.connect, common.connect),
        response: span(&file.response, common.response),
        idle: span(&file.idle, common.idle),
    }
}

fn uploads(
    file: Option<&FileUploads>,
    common: UploadRules,
    report: &mut ProblemReport<'_>,
) -> UploadRules {
    let Some(file) = file else { return common };
    let least_rate =
        file.least_rate.as_ref().and_then(|text| whole(text, "bytes per second", report));
    let mut span =
        |text: &Option<SourceValue<String>>| text.as_ref().and_then(|text| upload(text, report));
    UploadRules {
        least_rate: least_rate.unwrap_or(common.least_rate),
        grace: span(&file.grace).unwrap_or(common.grace),
        longest: span(&file.longest).or(common.longest),
    }
}

/// How long the body of a request may take: at most a day.
fn upload(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Span> {
    bounded_span(text, "a span", Span::from_millis(1), Span::from_days(1), report)
}

fn health(file: &FileHealthCheck, report: &mut ProblemReport<'_>) -> Option<HealthCheck> {
    let is_path = |c: char| c.is_ascii_graphic() && c != '#';
    if !file.path.value.starts_with('/') || !file.path.value.chars().all(is_path) {
        let value = brief(&file.path.value);
        report.add(&file.path.at, format!("{value:?}: expected a path such as /healthz"));
        return None;
    }
    let every = file.every.as_ref().and_then(|text| timeout(text, report));
    let within = file.timeout.as_ref().and_then(|text| timeout(text, report));
    Some(HealthCheck {
        path: file.path.value.clone(),
        every: every.unwrap_or(Span::from_secs(5)),
        timeout: within.unwrap_or(Span::from_secs(1)),
    })
}

const MAX_UPSTREAMS: usize = 1_000;
const MAX_ENDPOINTS: usize = 256;
