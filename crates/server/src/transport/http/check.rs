//! `POST /v1/check`: decides one check.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use tidegate::{ChargeIntent, Plan, RequestCharges, Store};
use tidegate_http::{JSON, RateLimitAnswer, allowed_body, denial, describe, describe_legacy};

use super::HttpResponse;
use super::refusal::HttpRefusal;
use super::request::HttpQuestion;
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> HttpResponse {
    // Load the plan once: the whole response must use one plan, even if another is loaded meanwhile.
    let plan = app.limiter().plan();
    match request_charges(&plan, body) {
        Ok(charges) => respond(app, &plan, &charges).await,
        Err(refusal) => refusal.into(),
    }
}

/// The charges of a check's body.
pub(super) fn request_charges<'p>(
    plan: &'p Plan,
    body: &[u8],
) -> Result<RequestCharges<'p>, HttpRefusal> {
    HttpQuestion::read_check(body).and_then(|question| question.request_charges(plan))
}

/// Decides and answers.
pub(super) async fn respond<S: Store>(
    app: &App<S>,
    plan: &Plan,
    charges: &RequestCharges<'_>,
) -> HttpResponse {
    let decision = app.decide(charges, ChargeIntent::Take).await;
    response(plan, &RateLimitAnswer::of_charges(charges, &decision))
}

/// The response for a decision.
pub(super) fn response(plan: &Plan, answer: &RateLimitAnswer<'_, '_>) -> HttpResponse {
    let mut response = if answer.decision().is_allowed() {
        let mut response = HttpResponse::new(allowed_body(answer));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        describe(answer, response.headers_mut());
        response
    } else {
        denial(answer)
    };
    describe_if_configured(plan, answer, response.headers_mut());
    response
}

/// Adds the legacy headers if they are configured.
pub(super) fn describe_if_configured(
    plan: &Plan,
    answer: &RateLimitAnswer<'_, '_>,
    headers: &mut HeaderMap,
) {
    if let Some(unit) = plan.settings().legacy_headers() {
        describe_legacy(answer, unit, headers);
    }
}

#[cfg(test)]
mod tests {
    use tidegate::MemoryStore;

    use super::*;

    #[test]
    fn a_check_is_small_because_hyper_moves_it_as_a_whole() {
        let app = App::demo(MemoryStore::new()).unwrap();
        let size = size_of_val(&answer(&app, b"{}"));
        assert!(size <= 2_048, "{size} bytes");
    }
}
