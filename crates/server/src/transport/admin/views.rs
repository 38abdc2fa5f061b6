//! The read-only views of the admin API: policies, peeks, overrides, top keys, status and configuration.

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate::config::{Amendment, PlannedPolicy, PolicySource as Text};
use tidegate::{ChargeIntent, Cost, DecisionSource, Histogram, HistogramSnapshot, Store};
use tidegate_http::{JSON, RateLimitAnswer, answer_body};
use tidegate_wire::admin::{
    AmendmentStatus, ConfigStatus, PolicyStatus, ProcessStatus, ServerStatus, StoreStatus,
    TimingHistogram,
};

use super::AdminConfig;
use super::body::read;
use super::secret_mask::mask_secrets;
use super::subject::{self, AdminSubject};
use crate::App;
use crate::service::amendments::ActiveAmendment;
use crate::service::limit_names::limit_names;
use crate::service::metrics::{MetricOutcome, ProcessUsage};
use crate::service::policy_overflows::PolicyOverflows;
use crate::transport::http::HttpResponse;
use crate::transport::http::refusal::{HttpRefusal, json as respond};

pub(super) fn ok(body: &impl Serialize) -> HttpResponse {
    respond(StatusCode::OK, JSON, body)
}

pub(super) fn policies<S: Store>(app: &App<S>) -> HttpResponse {
    let (policies, omitted) = busiest_policies(app, MOST_POLICIES);
    ok(&json!({ "policies": policies, "omitted": omitted }))
}

pub(super) fn policy<S: Store>(app: &App<S>, name: &str) -> Result<HttpResponse, HttpRefusal> {
    let plan = app.limiter().plan();
    let policy = subject::policy(&plan, name)?;
    Ok(ok(&policy_status(app, &app.overflows(), policy)))
}

/// The decision that a request would get now, and the marks of its keys.
pub(super) async fn peek<S: Store>(
    app: &App<S>,
    bytes: &[u8],
) -> Result<HttpResponse, HttpRefusal> {
    let subject: AdminSubject = read(bytes)?;
    let plan = app.limiter().plan();
    let charges = subject.charges(&plan, Cost::PEEK)?;
    // Not `App::decide`, which would count it: an operator's peek is not traffic.
    let decision = app.limiter().decide(&charges, ChargeIntent::Take).await;
    let marks = app.metrics().top().marks();
    let keys: Map<String, Value> = (0..charges.charges().len())
        .filter_map(|index| {
            let name = charges.policy(index)?.name().to_owned();
            Some((name, marks.of(charges.subject(index)?).into()))
        })
        .collect();
    let answer = RateLimitAnswer::of_charges(&charges, &decision);
    Ok(ok(&json!({ "keys": keys, "decision": answer_body(&answer) })))
}

pub(super) fn overrides<S: Store>(app: &App<S>) -> HttpResponse {
    let now = app.metrics().now();
    let status = |active: ActiveAmendment| {
        let policy = active.amendment.policy().to_owned();
        let (key, limits, mode) = match active.amendment {
            Amendment::Override { key, limits, .. } => (Some(key), limits, None),
            Amendment::Mode { mode, .. } => (None, Vec::new(), Some(mode.name().to_owned())),
        };
        let expires_in_secs = active.until.since(now).as_secs_ceil();
        AmendmentStatus { policy, key, limits, mode, expires_in_secs, problem: active.problem }
    };
    let list: Vec<_> = app.amendments().into_iter().map(status).collect();
    ok(&json!({ "overrides": list }))
}

pub(super) fn top<S: Store>(app: &App<S>) -> HttpResponse {
    ok(&app.metrics().top().list(MOST_KEYS))
}

/// The file in effect, without secrets.
pub(super) fn config<S: Store>(app: &App<S>, admin: &AdminConfig) -> HttpResponse {
    let source = app.plan_inputs().lock().source.clone();
    let settings =
        admin.settings().iter().map(|(name, value)| (name.clone(), mask_secrets(value).into()));
    let settings: Map<String, Value> = settings.collect();
    ok(&json!({
        "file": source.as_ref().map(Text::name),
        "text": source.as_ref().map(|source| mask_secrets(&source.redacted_text())),
        "settings": settings,
    }))
}

pub(super) async fn status<S: Store>(app: &App<S>) -> HttpResponse {
    let metrics = app.metrics();
    let usage = app.usage().await;
    let report = app.limiter().store_report();
    let (policies, policies_omitted) = busiest_policies(app, MOST_SHOWN);
    let (reloads, refused) = app.reload_counts();
    let process = ProcessUsage::now();
    let uptime = metrics.now().since(metrics.started());
    ok(&ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_secs: uptime.as_micros() / 1_000_000,
        decision: timing(&metrics.latency()),
        policies,
        policies_omitted,
        unmatched: metrics.unmatched(),
        store: StoreStatus {
            is_remote: report.is_remote,
            breaker_open: !report.is_available,
            problem: report.problem,
            latency: timing(&report.latency),
            errors: report.errors.iter().map(|(_, count)| count).sum(),
            keys: usage.keys,
            max_keys: usage.max_keys,
            bytes: usage.bytes,
            max_bytes: usage.max_bytes,
            overflowed: usage.overflowed,
        },
        process: ProcessStatus {
            resident_bytes: process.resident_bytes,
            open_fds: process.open_fds,
        },
        config: ConfigStatus {
            reloads,
            refused,
            problem: app.reload_problem(),
            amendments: app.amendments().len(),
        },
        top: metrics.top().list(MOST_KEYS),
    })
}

fn timing(durations: &HistogramSnapshot) -> TimingHistogram {
    TimingHistogram { bounds_nanos: Histogram::BOUNDS.to_vec(), counts: durations.counts.to_vec() }
}

/// The policies with the most decisions first, and how many are left out.
fn busiest_policies<S: Store>(app: &App<S>, most: usize) -> (Vec<PolicyStatus>, usize) {
    let plan = app.limiter().plan();
    let mut all: Vec<_> =
        plan.policies().iter().map(|policy| (decision_count(app, policy.name()), policy)).collect();
    // A stable sort: unused policies stay in the order of the file.
    all.sort_by_key(|(decisions, _)| std::cmp::Reverse(*decisions));
    let overflows = app.overflows();
    let status = |policy| policy_status(app, &overflows, policy);
    let shown = all.iter().take(most).map(|(_, policy)| status(policy)).collect();
    (shown, all.len().saturating_sub(most))
}

fn decision_count<S: Store>(app: &App<S>, policy: &str) -> u64 {
    let counters = app.metrics().policy(policy);
    counters.map_or(0, |it| MetricOutcome::ALL.iter().map(|outcome| it.total(*outcome)).sum())
}

fn policy_status<S: Store>(
    app: &App<S>,
    overflows: &PolicyOverflows,
    policy: &PlannedPolicy,
) -> PolicyStatus {
    let counters = app.metrics().policy(policy.name());
    let total = |outcome| counters.as_ref().map_or(0, |counters| counters.total(outcome));
    PolicyStatus {
        name: policy.name().to_owned(),
        mode: policy.mode().name().to_owned(),
        key: policy.key().map(str::to_owned).collect(),
        limits: limit_names(policy.rules()),
        on_store_error: policy.on_store_error().name().to_owned(),
        overrides: policy.override_count(),
        allowed: total(MetricOutcome::Allowed),
        denied: total(MetricOutcome::Denied),
        shadow_denied: total(MetricOutcome::ShadowDenied),
        peeked: total(MetricOutcome::Peeked),
        fallback: counters
            .as_ref()
            .map_or(0, |counters| counters.by_source(DecisionSource::Fallback)),
        early_returns: counters.as_ref().map_or(0, |counters| counters.early()),
        overflowed: overflows.of(policy.name()),
    }
}

const MOST_POLICIES: usize = 1_000;
const MOST_SHOWN: usize = 100;
const MOST_KEYS: usize = 20;
