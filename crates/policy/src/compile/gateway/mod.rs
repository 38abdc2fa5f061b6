//! Compiles a gateway: its routes, services and options.

mod fields;
mod sections;
mod upstream;

use std::collections::HashMap;

use crate::attributes::PlanAttributes;
use crate::compile::{PolicyCompiler, conditions, requests};
use crate::file::{ConfigFile, FileGateway, FileRoute};
use crate::gateway::{GatewayPlan, RoutePlan, UpstreamPlan};
use crate::problem::{ProblemReport, brief};
use crate::yaml::SourceValue;

pub(crate) use fields::{field_list, field_name, field_value, secret_place};

/// Compiles a gateway. Of a gateway with problems, the rest is checked all the same.
pub(crate) fn compile(
    file: &ConfigFile,
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> Option<GatewayPlan> {
    let used: Vec<String> = compiler.attributes.names().map(str::to_owned).collect();
    let gateway =
        file.gateway.as_ref().and_then(|gateway| compile_gateway(gateway, compiler, report))?;
    check_tokens(file, &used, &gateway, report);
    Some(gateway)
}

fn compile_gateway(
    file: &SourceValue<FileGateway>,
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> Option<GatewayPlan> {
    let (at, file) = (&file.at, &file.value);
    let upstreams = upstream::compile(file, report);
    if upstreams.is_empty() && report.is_clean() {
        report.add(at, "no service: expected at least one in \"upstreams\"");
    }
    let (routes, known) = routes(file, &upstreams, compiler, report);
    let listen: Vec<_> = file.listen.iter().filter_map(|text| listen(text, report)).collect();
    let mut gateway = GatewayPlan::new(upstreams);
    if !file.listen.is_empty() {
        gateway.listen = listen;
    }
    if !file.routes.is_empty() {
        (gateway.routes, gateway.attributes) = (routes, known);
    } else if gateway.upstreams.len() > 1 {
        let count = gateway.upstreams.len();
        let expected = "expected \"routes\" that say which requests go to which service";
        report.add(at, format!("{count} services and no route: {expected}"));
    }
    gateway.request_headers = fields::rules(file.request_headers.as_ref(), report);
    gateway.response_headers = fields::rules(file.response_headers.as_ref(), report);
    let slashes = file.encoded_slashes.as_ref();
    gateway.requests = requests::rules_for_gateway(file.requests.as_ref(), slashes, report);
    if let Some(location) = file.api_key.as_ref().and_then(|key| sections::api_key(key, report)) {
        gateway.api_key = location;
    }
    gateway.jwt = file.jwt.as_ref().and_then(|jwt| sections::jwt(jwt, report));
    gateway.access_log = file.access_log.as_ref().and_then(|log| sections::access_log(log, report));
    Some(gateway)
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

/// The routes, and the attributes that they use. These are numbered separately from those of
/// policies, so that policies do not look them up.
fn routes(
    file: &FileGateway,
    upstreams: &[UpstreamPlan],
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> (Vec<RoutePlan>, PlanAttributes) {
    if let Some(first) = file.routes.get(MAX_ROUTES) {
        report.add(&first.upstream.at, format!("too many routes: expected at most {MAX_ROUTES}"));
        return (Vec::new(), PlanAttributes::default());
    }
    let of_routes = PlanAttributes::new(compiler.attributes.path_case());
    let of_policies = std::mem::replace(&mut compiler.attributes, of_routes);
    let mut seen: HashMap<String, ()> = HashMap::new();
    let mut routes = Vec::new();
    for file in &file.routes {
        let Some(route) = route(file, upstreams, compiler, report) else { continue };
        if seen.insert(route.name.clone(), ()).is_some() {
            let at = file.name.as_ref().map_or(&file.upstream.at, |name| &name.at);
            let name = brief(&route.name);
            report.add(at, format!("a second route {name:?}: expected a \"name\" of its own"));
        }
        routes.push(route);
    }
    (routes, std::mem::replace(&mut compiler.attributes, of_policies))
}

fn route(
    file: &FileRoute,
    upstreams: &[UpstreamPlan],
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> Option<RoutePlan> {
    for condition in &file.condition {
        let name = &condition.attribute.value;
        if !matches!(name.as_str(), "host" | "path" | "method") && !name.starts_with("header:") {
            let known = ["host", "path", "method", "header:NAME"];
            report.add_unknown(&condition.attribute.at, "attribute of a route", name, &known);
        }
    }
    let conditions = conditions::conditions(&file.condition, compiler, report);
    let number = upstreams.iter().position(|upstream| upstream.name == file.upstream.value);
    if number.is_none() {
        let names: Vec<_> = upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
        report.add_unknown(&file.upstream.at, "service", &file.upstream.value, &names);
    }
    let name = match &file.name {
        Some(name) => fields::label(name, "a route", report)?,
        None => file.upstream.value.clone(),
    };
    let mut route = RoutePlan::new(name, conditions, number?);
    route.request_headers = fields::rules(file.request_headers.as_ref(), report);
    route.response_headers = fields::rules(file.response_headers.as_ref(), report);
    Some(route)
}

/// Refuses policies that use claims without `jwt`: no claim would ever be present, and the policy would
/// limit nobody.
fn check_tokens(
    file: &ConfigFile,
    used: &[String],
    gateway: &GatewayPlan,
    report: &mut ProblemReport<'_>,
) {
    if gateway.jwt.is_some()
        || file.gateway.as_ref().is_some_and(|gateway| gateway.value.jwt.is_some())
    {
        return;
    }
    if let Some(claim) = used.iter().find(|name| name.starts_with("jwt:")) {
        let at = file.gateway.as_ref().map_or(0..0, |gateway| gateway.at.clone());
        let claim = brief(claim);
        let expected = "expected \"jwt\" with the keys that verify tokens";
        report.add(&at, format!("a policy uses {claim:?}: {expected}"));
    }
}

const MAX_ROUTES: usize = 1_000;
