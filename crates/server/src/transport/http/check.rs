//! `POST /v1/check`: a question in, a decision out.

use std::collections::HashMap;

use http::StatusCode;
use tidegate::config::PlannedPolicy;
use tidegate::{Attributes, Cost, Owed, Plan, Reason, Span, Store};
use tidegate_wire::{CheckResponse, LimitStatus, Problem, QuotaExceeded, Text};

use super::answer::{Answer, Said};
use super::problem::{JSON, PROBLEM_JSON, Refusal, json, title};
use super::request::{Check, Subject, bounded};
use super::{Response, headers};
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    // Once: the whole answer is by one plan, whatever is loaded meanwhile.
    let plan = app.limiter().plan();
    match owed(&plan, body) {
        Ok(owed) => respond(app, &owed).await,
        Err(refusal) => refusal.into(),
    }
}

/// Decides, and says so.
pub(super) async fn respond<S: Store>(app: &App<S>, owed: &Owed<'_>) -> Response {
    let decision = app.settle(owed).await;
    let answer = Answer { owed, decision: &decision };
    if decision.is_allowed() { allowed(&answer) } else { denied(&answer) }
}

fn owed<'p>(plan: &'p Plan, body: &[u8]) -> Result<Owed<'p>, Refusal> {
    let Check { subject, cost } = Check::read(body)?;
    match &subject {
        Subject::Named { policy, key } => of_policy(plan, policy, key, cost),
        Subject::Described(attributes) => {
            let attributes = Described(attributes);
            for name in plan.attributes() {
                bounded(attributes.attribute(name).unwrap_or_default(), || {
                    format!("attributes.{name}")
                })?;
            }
            Ok(plan.charges(&attributes, cost))
        }
    }
}

/// A policy by name, whose key is one attribute.
fn of_policy<'p>(plan: &'p Plan, name: &str, key: &str, cost: Cost) -> Result<Owed<'p>, Refusal> {
    let Some(policy) = plan.policy(name) else {
        return Err(Refusal::unknown_policy(name, plan.policies().iter().map(PlannedPolicy::name)));
    };
    bounded(key.as_bytes(), || "key".to_owned())?;
    let parts: Vec<&str> = policy.key().collect();
    let [attribute] = parts[..] else {
        return Err(Refusal::not_one_key(name, &parts));
    };
    let owed = plan.charges_of(name, &[(attribute, key)], cost);
    owed.ok_or_else(|| Refusal::not_one_key(name, &parts))
}

/// The attributes of a request; `null` is absent.
struct Described<'a>(&'a HashMap<Text<'a>, Option<Text<'a>>>);

impl Attributes for Described<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name)?.as_ref().map(|value| value.as_bytes())
    }
}

fn allowed(answer: &Answer<'_, '_>) -> Response {
    let mut response = json(StatusCode::OK, JSON, &body(answer));
    headers::describe(answer, response.headers_mut());
    response
}

fn denied(answer: &Answer<'_, '_>) -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let problem = Problem {
        kind: Problem::QUOTA_EXCEEDED,
        title: title(status),
        status: status.as_u16(),
        detail: &detail(answer),
        members: QuotaExceeded { violated_policies: answer.violated(), answer: body(answer) },
    };
    let mut response = json(status, PROBLEM_JSON, &problem);
    headers::describe(answer, response.headers_mut());
    response
}

fn detail(answer: &Answer<'_, '_>) -> String {
    let name = answer.policy().unwrap_or_default();
    match (answer.tightest(), answer.decision.retry_after()) {
        (Some(said), Some(wait)) => {
            let (quota, secs) = (said.rule.limit.quota(), wait.as_secs_ceil());
            format!("policy {name} allows {quota}: try again in {secs}s")
        }
        (Some(_), None) if answer.owed.is_crowded() => {
            "more limits apply to this request than can be settled together".to_owned()
        }
        (Some(said), None) => {
            let most = said.rule.limit.capacity();
            format!("policy {name} never holds more than {most}: the cost does not fit")
        }
        (None, _) => format!("policy {name} could not be asked: {}", answer.decision.reason()),
    }
}

fn body<'a>(answer: &Answer<'a, '_>) -> CheckResponse<'a> {
    let decision = answer.decision;
    let reason = decision.reason();
    CheckResponse {
        allowed: decision.is_allowed(),
        policy: if reason == Reason::NoPolicy { None } else { answer.policy() },
        reason: reason.name(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ms: decision.retry_after().map(Span::as_millis_ceil),
        reset_after_ms: decision.reset_after().map(Span::as_millis_ceil),
        source: decision.source().name(),
        limits: answer.each().map(status).collect(),
    }
}

fn status(said: Said<'_>) -> LimitStatus<'_> {
    let Said { policy, rule, verdict } = said;
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
