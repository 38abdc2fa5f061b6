//! `POST /v1/check`: a question in, a decision out.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use tidegate::{Owed, Plan, Store};
use tidegate_http::{Answer, JSON, allowance, denial, describe, describe_legacy};

use super::Response;
use super::problem::Refusal;
use super::request::Question;
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    // Once: the whole answer uses one plan, whatever is loaded meanwhile.
    let plan = app.limiter().plan();
    match owed(&plan, body) {
        Ok(owed) => respond(app, &plan, &owed).await,
        Err(refusal) => refusal.into(),
    }
}

/// What the subject of a body owes.
pub(super) fn owed<'p>(plan: &'p Plan, body: &[u8]) -> Result<Owed<'p>, Refusal> {
    Question::check(body).and_then(|question| question.owed(plan))
}

/// Decides, and responds.
pub(super) async fn respond<S: Store>(app: &App<S>, plan: &Plan, owed: &Owed<'_>) -> Response {
    let decision = app.settle(owed).await;
    response(plan, &Answer::of_owed(owed, &decision))
}

/// A decision as a response.
pub(super) fn response(plan: &Plan, answer: &Answer<'_, '_>) -> Response {
    let mut response = if answer.decision().is_allowed() {
        let mut response = Response::new(allowance(answer));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        describe(answer, response.headers_mut());
        response
    } else {
        denial(answer)
    };
    describe_as_asked_for(plan, answer, response.headers_mut());
    response
}

/// The optional headers.
pub(super) fn describe_as_asked_for(plan: &Plan, answer: &Answer<'_, '_>, headers: &mut HeaderMap) {
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
