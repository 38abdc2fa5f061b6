//! `POST /v1/check`: a question in, a decision out.

use http::StatusCode;
use tidegate::{Decision, Policy, Reason, Rule, Source, Span, Store, Verdict};
use tidegate_wire::{CheckResponse, LimitStatus, Problem, QuotaExceeded};

use super::problem::{JSON, PROBLEM_JSON, Refusal, json, title};
use super::request::{Check, Subject, bounded};
use super::{Response, headers};
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    match decide(app, body).await {
        Ok(decision) if decision.is_allowed() => allowed(app.policy(), &decision),
        Ok(decision) => denied(app.policy(), &decision),
        Err(refusal) => refusal.into(),
    }
}

async fn decide<S: Store>(app: &App<S>, body: &[u8]) -> Result<Decision, Refusal> {
    let Check { subject, cost } = Check::read(body)?;
    let key = match &subject {
        Subject::Named { policy, key } if **policy == *app.policy().name() => bounded(key, "key")?,
        Subject::Named { policy, .. } => {
            return Err(Refusal::unknown_policy(policy, &[app.policy().name()]));
        }
        Subject::Described(attributes) => match attributes.get(app.key_attribute()) {
            Some(Some(key)) => bounded(key, &format!("attributes.{}", app.key_attribute()))?,
            Some(None) | None => return Ok(Decision::unsettled(true, Source::None)),
        },
    };
    Ok(app.limiter().check_n(key, cost).await)
}

fn allowed(policy: &Policy, decision: &Decision) -> Response {
    let mut response = json(StatusCode::OK, JSON, &body(policy, decision));
    headers::describe(policy, decision, response.headers_mut());
    response
}

fn denied(policy: &Policy, decision: &Decision) -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let problem = Problem {
        kind: Problem::QUOTA_EXCEEDED,
        title: title(status),
        status: status.as_u16(),
        detail: &detail(policy, decision),
        members: QuotaExceeded {
            violated_policies: vec![policy.name()],
            answer: body(policy, decision),
        },
    };
    let mut response = json(status, PROBLEM_JSON, &problem);
    headers::describe(policy, decision, response.headers_mut());
    response
}

fn detail(policy: &Policy, decision: &Decision) -> String {
    let name = policy.name();
    let rule = decision.tightest_index().and_then(|index| policy.rules().get(index));
    match (rule, decision.retry_after()) {
        (Some(rule), Some(wait)) => {
            let (quota, secs) = (rule.limit.quota(), wait.as_secs_ceil());
            format!("policy {name} allows {quota}: try again in {secs}s")
        }
        (Some(rule), None) => {
            let most = rule.limit.capacity();
            format!("policy {name} never holds more than {most}: the cost does not fit")
        }
        (None, _) => format!("policy {name} could not be asked: {}", decision.reason()),
    }
}

fn body<'a>(policy: &'a Policy, decision: &Decision) -> CheckResponse<'a> {
    let reason = decision.reason();
    let rules = policy.rules().iter().zip(decision.verdicts());
    CheckResponse {
        allowed: decision.is_allowed(),
        policy: (reason != Reason::NoPolicy).then(|| policy.name()),
        reason: reason.name(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ms: decision.retry_after().map(Span::as_millis_ceil),
        reset_after_ms: decision.reset_after().map(Span::as_millis_ceil),
        source: decision.source().name(),
        limits: rules.map(|(rule, verdict)| status(policy.name(), rule, verdict)).collect(),
    }
}

fn status<'a>(policy: &'a str, rule: &Rule, verdict: &Verdict) -> LimitStatus<'a> {
    LimitStatus {
        policy,
        algorithm: rule.limit.kind().name(),
        limit: verdict.limit,
        window_ms: rule.limit.quota().window().as_millis_ceil(),
        allowed: verdict.allowed,
        remaining: verdict.remaining,
        retry_after_ms: verdict.retry_after.map(Span::as_millis_ceil),
        reset_after_ms: verdict.reset_after.as_millis_ceil(),
        mode: if rule.enforced { "enforce" } else { "shadow" },
    }
}
