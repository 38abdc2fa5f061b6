//! Compiles the parts of a policy that only a gateway uses: denials, waiting and response costs.

use tidegate::{Cost, Span};
use tidegate_policy::section::{
    FileChoice as _, ProblemReport, SectionPolicy, SourceValue, brief, units,
};

use super::fields::{field_list, field_name, field_value};
use super::timeout;
use crate::config::file::{FileDeniedResponse, FileGatewayPolicy, FileResponseCost, OnDenied};
use crate::config::{DeniedResponse, GatewayPolicy, GatewaySection, ResponseCostSource, StatusSet};

pub(super) fn compile(
    file: &SectionPolicy<'_, GatewaySection>,
    report: &mut ProblemReport<'_>,
) -> Option<GatewayPolicy> {
    let policy = GatewayPolicy {
        max_wait: max_wait(&file.fields, report),
        denied: file.fields.denied.as_ref().map(|file| denied(file, report)),
        response_cost: match &file.cost {
            Some(cost) => response_cost(cost, file.cost_default, report),
            None => None,
        },
        uses_claims: file.attributes.iter().any(|name| name.starts_with("jwt:")),
    };
    (policy != GatewayPolicy::default()).then_some(policy)
}

fn max_wait(file: &FileGatewayPolicy, report: &mut ProblemReport<'_>) -> Option<Span> {
    let on_denied = file.on_denied.as_ref().and_then(|name| OnDenied::named(name, report));
    let waits = on_denied == Some(OnDenied::Wait);
    let span = file.max_wait.as_ref().and_then(|text| timeout(text, report));
    match (&file.max_wait, &file.on_denied) {
        (Some(text), None) => {
            report.add(&text.at, "max_wait has no effect: expected on_denied: wait too");
        }
        (Some(text), Some(_)) if !waits => {
            report
                .add(&text.at, "max_wait has no effect: expected on_denied: wait, or no max_wait");
        }
        _ => {}
    }
    waits.then(|| span.unwrap_or(DEFAULT_WAIT))
}

fn denied(file: &FileDeniedResponse, report: &mut ProblemReport<'_>) -> DeniedResponse {
    let is_status = |status: &u16| (400..=599).contains(status);
    let status = match &file.status {
        None => Some(429),
        Some(text) => {
            let status = text.value.parse().ok().filter(is_status);
            if status.is_none() {
                let value = brief(&text.value);
                report.add(&text.at, format!("{value:?}: expected a status of 400 to 599"));
            }
            status
        }
    };
    if let Some(body) = file.body.as_ref().filter(|body| body.value.len() > MAX_BODY) {
        report.add(&body.at, format!("a body of more than {MAX_BODY} bytes"));
    }
    let kind = file.content_type.as_ref().and_then(|kind| field_value(kind, report));
    let kind = kind.unwrap_or_else(|| "text/plain; charset=utf-8".to_owned());
    DeniedResponse {
        status: status.unwrap_or(429),
        body: file.body.as_ref().map(|body| (body.value.clone(), kind)),
        headers: field_list(&file.headers, report),
    }
}

fn response_cost(
    fields: &FileResponseCost,
    default: Option<&SourceValue<String>>,
    report: &mut ProblemReport<'_>,
) -> Option<ResponseCostSource> {
    if let Some(name) = &fields.response_header {
        let default = default.map(|text| units(text, report));
        let name = field_name(name, report)?;
        return Some(ResponseCostSource::Header { name, default: default.unwrap_or(Cost::ONE) });
    }
    let texts = fields.response_status.as_ref()?;
    if let Some(default) = default {
        report.add(&default.at, "a response_status costs 1 or 0: expected no default");
    }
    let mut statuses = StatusSet::default();
    for text in texts {
        status(text, &mut statuses, report);
    }
    Some(ResponseCostSource::Status(statuses))
}

fn status(text: &SourceValue<String>, statuses: &mut StatusSet, report: &mut ProblemReport<'_>) {
    if !statuses.push(&text.value) {
        let value = brief(&text.value);
        report.add(&text.at, format!("{value:?}: expected a status such as 401, or 5xx"));
    }
}

const DEFAULT_WAIT: Span = Span::from_secs(5);
const MAX_BODY: usize = 64 << 10;
