//! Compiles a gateway: its routes, services and options.

mod fields;
mod options;
mod policy;
mod upstream;

use std::collections::HashSet;

use tidegate::Span;
use tidegate_policy::section::{
    ConditionList, ProblemReport, Section, SectionContext, SectionPolicy, SourceValue,
    bounded_span, brief, rules_for_forwarding,
};

use super::file::{FileGateway, FileGatewayPolicy, FileResponseCost, FileRoute};
use super::{GatewayPlan, GatewayPolicy, GatewaySection, RoutePlan, UpstreamPlan};

impl Section for GatewaySection {
    const NAME: &'static str = "gateway";
    const ABOUT: &'static str = "A gateway in front of services that enforces the policies.";
    type File = FileGateway;
    type PolicyFile = FileGatewayPolicy;
    type CostFile = FileResponseCost;
    type Plan = GatewayPlan;
    type Policy = GatewayPolicy;

    /// Of a gateway with problems, the rest is checked all the same.
    fn compile(
        file: &SourceValue<FileGateway>,
        context: &SectionContext<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<GatewayPlan> {
        let gateway = compile_gateway(file, context, report);
        check_tokens(file, context, report);
        Some(gateway)
    }

    fn compile_policy(
        file: &SectionPolicy<'_, Self>,
        report: &mut ProblemReport<'_>,
    ) -> Option<GatewayPolicy> {
        policy::compile(file, report)
    }
}

fn compile_gateway(
    file: &SourceValue<FileGateway>,
    context: &SectionContext<'_>,
    report: &mut ProblemReport<'_>,
) -> GatewayPlan {
    let (at, file) = (&file.at, &file.value);
    let upstreams = upstream::compile(file, report);
    if upstreams.is_empty() && report.is_clean() {
        report.add(at, "no service: expected at least one in \"upstreams\"");
    }
    let (routes, conditions) = routes(file, &upstreams, context, report);
    let listen: Vec<_> = file.listen.iter().filter_map(|text| listen(text, report)).collect();
    let mut gateway = GatewayPlan::new(upstreams);
    if !file.listen.is_empty() {
        gateway.listen = listen;
    }
    if !file.routes.is_empty() {
        (gateway.routes, gateway.conditions) = (routes, conditions);
    } else if gateway.upstreams.len() > 1 {
        let count = gateway.upstreams.len();
        let expected = "expected \"routes\" that say which requests go to which service";
        report.add(at, format!("{count} services and no route: {expected}"));
    }
    gateway.request_headers = fields::rules(file.request_headers.as_ref(), report);
    gateway.response_headers = fields::rules(file.response_headers.as_ref(), report);
    let slashes = file.encoded_slashes.as_ref();
    gateway.requests = rules_for_forwarding(file.requests.as_ref(), slashes, report);
    if let Some(location) = file.api_key.as_ref().and_then(|key| options::api_key(key, report)) {
        gateway.api_key = location;
    }
    gateway.jwt = file.jwt.as_ref().and_then(|jwt| options::jwt(jwt, report));
    gateway.access_log = file.access_log.as_ref().and_then(|log| options::access_log(log, report));
    gateway
}

/// How long a gateway waits: at most an hour.
fn timeout(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Span> {
    bounded_span(text, "a span", Span::from_millis(1), Span::from_secs(3_600), report)
}

/// `host:port`. Whether the address is available shows only when the server binds it.
fn listen(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<String> {
    let port = text.value.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        let value = brief(&text.value);
        let expected = format!("expected host:port, such as {}", GatewayPlan::DEFAULT_LISTEN);
        report.add(&text.at, format!("{value:?} is not an address to listen on: {expected}"));
        return None;
    }
    Some(text.value.clone())
}

/// The valid routes, and their conditions.
fn routes(
    file: &FileGateway,
    upstreams: &[UpstreamPlan],
    context: &SectionContext<'_>,
    report: &mut ProblemReport<'_>,
) -> (Vec<RoutePlan>, ConditionList) {
    let (mut routes, mut conditions) = (Vec::new(), context.condition_list());
    if let Some(first) = file.routes.get(MAX_ROUTES) {
        report.add(&first.upstream.at, format!("too many routes: expected at most {MAX_ROUTES}"));
        return (routes, conditions);
    }
    let mut seen = HashSet::new();
    for file in &file.routes {
        conditions.push(&file.condition, report);
        let Some(route) = route(file, upstreams, report) else { continue };
        if !seen.insert(route.name.clone()) {
            let at = file.name.as_ref().map_or(&file.upstream.at, |name| &name.at);
            let name = brief(&route.name);
            report.add(at, format!("a second route {name:?}: expected a \"name\" of its own"));
        }
        routes.push(route);
    }
    (routes, conditions)
}

fn route(
    file: &FileRoute,
    upstreams: &[UpstreamPlan],
    report: &mut ProblemReport<'_>,
) -> Option<RoutePlan> {
    for condition in &file.condition {
        let name = &condition.attribute.value;
        if !matches!(name.as_str(), "host" | "path" | "method") && !name.starts_with("header:") {
            let known = ["host", "path", "method", "header:NAME"];
            report.add_unknown(&condition.attribute.at, "attribute of a route", name, &known);
        }
    }
    let number = upstreams.iter().position(|upstream| upstream.name == file.upstream.value);
    if number.is_none() {
        let names: Vec<_> = upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
        report.add_unknown(&file.upstream.at, "service", &file.upstream.value, &names);
    }
    let name = match &file.name {
        Some(name) => fields::label(name, "a route", report)?,
        None => file.upstream.value.clone(),
    };
    let mut route = RoutePlan::new(name, number?);
    route.request_headers = fields::rules(file.request_headers.as_ref(), report);
    route.response_headers = fields::rules(file.response_headers.as_ref(), report);
    Some(route)
}

/// Refuses policies that use claims without `jwt`: no claim would ever be present, and the policy would
/// limit nobody.
fn check_tokens(
    file: &SourceValue<FileGateway>,
    context: &SectionContext<'_>,
    report: &mut ProblemReport<'_>,
) {
    let claim = context.attributes().find(|name| name.starts_with("jwt:"));
    if let (None, Some(claim)) = (&file.value.jwt, claim) {
        let claim = brief(claim);
        let expected = "expected \"jwt\" with the keys that verify tokens";
        report.add(&file.at, format!("a policy uses {claim:?}: {expected}"));
    }
}

const MAX_ROUTES: usize = 1_000;
