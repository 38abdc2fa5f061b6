//! Response bodies: of every answer, and of a denial.

use std::fmt::{self, Display};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use tidegate_limiter::{DecisionReason, DecisionSource, Span};
use tidegate_wire::{CheckResponse, LimitStatus, ProblemDetails, QuotaExceeded};

use crate::{LimitReport, PROBLEM_JSON, RateLimitAnswer, describe};

/// The response to a denied request: 429 with the problem details and all fields.
///
/// The body is a problem document by RFC 9457, with the whole decision in it.
///
/// ```
/// use tidegate::Limiter;
/// use tidegate::http::{RateLimitAnswer, denial};
///
/// let limiter = Limiter::builder().name("login").limit("1/hour").build()?;
/// let _ = limiter.check_now("alice");
/// let decision = limiter.check_now("alice");
/// let response = denial(&RateLimitAnswer::of_policy(limiter.policy(), &decision));
/// let problem: serde_json::Value = serde_json::from_slice(response.body())?;
/// assert_eq!(problem["violated-policies"][0], "login");
/// assert_eq!(problem["reason"], "limit_exceeded");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn denial(answer: &RateLimitAnswer<'_, '_>) -> Response<Bytes> {
    let mut response = denial_without_fields(answer);
    describe(answer, response.headers_mut());
    response
}

/// [`denial`] without its [fields](crate::RateLimitFields).
pub fn denial_without_fields(answer: &RateLimitAnswer<'_, '_>) -> Response<Bytes> {
    let mut text = Vec::with_capacity(ENOUGH);
    write_denial(answer, &mut text);
    let mut response = Response::new(text.into());
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    response
}

/// Appends the body of a denial to `out`.
pub fn write_denial(answer: &RateLimitAnswer<'_, '_>, out: &mut Vec<u8>) {
    let status = StatusCode::TOO_MANY_REQUESTS;
    // Without the store, no limit is known to be exceeded.
    let is_exceeded = answer.decision().reason() != DecisionReason::StoreUnavailable;
    ProblemDetails {
        kind: if is_exceeded { ProblemDetails::QUOTA_EXCEEDED } else { ProblemDetails::BLANK },
        title: status.canonical_reason().unwrap_or("Error"),
        status: status.as_u16(),
        detail: &detail(answer),
        members: QuotaExceeded {
            violated_policies: answer.violated(),
            answer: answer_body(answer),
        },
    }
    .write(out);
}

/// The body of the answer to an allowed request, as text.
///
/// ```
/// use tidegate::Limiter;
/// use tidegate::http::RateLimitAnswer;
/// use tidegate_http::allowed_body;
///
/// let limiter = Limiter::builder().name("api").limit("5/minute").build()?;
/// let decision = limiter.check_now("alice");
/// let body = allowed_body(&RateLimitAnswer::of_policy(limiter.policy(), &decision));
/// let body: serde_json::Value = serde_json::from_slice(&body)?;
/// assert_eq!((&body["allowed"], &body["remaining"]), (&true.into(), &4.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn allowed_body(answer: &RateLimitAnswer<'_, '_>) -> Bytes {
    let mut text = Vec::with_capacity(ENOUGH);
    answer_body(answer).write(&mut text);
    text.into()
}

/// The body of an answer, allowed or denied.
pub fn answer_body<'a>(answer: &RateLimitAnswer<'a, '_>) -> CheckResponse<'a> {
    let decision = answer.decision();
    let reason = answer.reason();
    CheckResponse {
        allowed: decision.is_allowed(),
        policy: if reason == DecisionReason::NoPolicy { None } else { answer.policy() },
        reason: reason.name(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ms: decision.retry_span().map(Span::as_millis_ceil),
        reset_after_ms: decision.reset_span().map(Span::as_millis_ceil),
        source: decision.source().name(),
        limits: answer.each_limit().map(status).collect(),
    }
}

/// The text of a body. These types always serialize; if one did not, the body would be empty.
pub fn json(body: &impl serde::Serialize) -> Bytes {
    let mut text = Vec::with_capacity(ENOUGH);
    if serde_json::to_writer(&mut text, body).is_err() {
        text.clear();
    }
    text.into()
}

fn status(report: LimitReport<'_>) -> LimitStatus<'_> {
    let LimitReport { policy, rule, verdict } = report;
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

fn detail(answer: &RateLimitAnswer<'_, '_>) -> String {
    let name = answer.policy().unwrap_or_default();
    match (answer.tightest(), answer.decision().retry_span()) {
        (Some(report), Some(wait)) => {
            let allows = AppliedLimit { answer, report: &report };
            format!("policy {name} allows {allows}: try again in {}", wait.max(SECOND).roughly())
        }
        (Some(_), None) if answer.is_crowded() => {
            "more limits apply to this request than can be settled together".to_owned()
        }
        (Some(report), None) => {
            let most = report.rule.limit.capacity();
            format!("the cost is above what policy {name} ever allows: at most {most}")
        }
        (None, Some(wait)) if answer.policy().is_none() => {
            format!("the limit is used up: try again in {}", wait.max(SECOND).roughly())
        }
        (None, None) if answer.policy().is_none() => "the limit is used up".to_owned(),
        (None, _) => {
            format!("policy {name} could not be evaluated: {}", answer.decision().reason())
        }
    }
}

/// The limit that was applied: this instance's share while the store is unavailable.
struct AppliedLimit<'s, 'a, 'd> {
    answer: &'s RateLimitAnswer<'a, 'd>,
    report: &'s LimitReport<'a>,
}

impl Display for AppliedLimit<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, applied) = (&self.report.rule.limit, self.report.verdict.limit);
        let is_away = self.answer.decision().source() == DecisionSource::Fallback;
        match is_away && applied < limit.capacity() {
            true => write!(f, "{applied} of {} here while the store is unavailable", limit.rate()),
            false => limit.rate().fmt(f),
        }
    }
}

/// Holds most bodies, so that they do not grow step by step.
const ENOUGH: usize = 768;
/// The smallest wait, as in `Retry-After`: never an immediate retry.
const SECOND: Span = Span::from_secs(1);

#[cfg(test)]
mod tests {
    use tidegate_limiter::config::PolicySource as Text;
    use tidegate_limiter::{Cost, Decision, Plan, Verdict};

    use super::*;

    #[test]
    fn a_denial_quotes_what_was_applied() {
        let text = "policies: [{ name: api, key: [user], limits: [10/minute] }]";
        let plan = Plan::compile(&Text::new("test", text).unwrap()).unwrap();
        let request_charges = plan.charges(&[("user", "alice")], Cost::ONE);
        let said = |source, limit| {
            let verdict = Verdict {
                allowed: false,
                limit,
                remaining: 0,
                retry_after: Some(Span::from_secs(9)),
                reset_after: Span::from_secs(60),
            };
            let decision = Decision::of_charges(request_charges.charges(), source, |verdicts| {
                verdicts.push(verdict);
                false
            });
            detail(&RateLimitAnswer::of_charges(&request_charges, &decision))
        };
        assert_eq!(said(DecisionSource::Store, 10), "policy api allows 10/minute: try again in 9s");
        assert_eq!(
            said(DecisionSource::Fallback, 10),
            "policy api allows 10/minute: try again in 9s"
        );
        let share =
            "policy api allows 5 of 10/minute here while the store is unavailable: try again in 9s";
        assert_eq!(said(DecisionSource::Fallback, 5), share);
    }
}
