//! `POST /v1/check`: a question in, a decision out.

use http::{HeaderMap, StatusCode};
use http_body_util::Full;
use tidegate::{Owed, Plan, Store};
use tidegate_http::{Answer, JSON, body, denial, describe, describe_legacy};

use super::Response;
use super::problem::json;
use super::request::Question;
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    // Once: the whole answer is by one plan, whatever is loaded meanwhile.
    let plan = app.limiter().plan();
    let owed = match Question::check(body).and_then(|question| question.owed(&plan)) {
        Ok(owed) => owed,
        Err(refusal) => return refusal.into(),
    };
    respond(app, &plan, &owed).await
}

/// Decides, and says so.
pub(super) async fn respond<S: Store>(app: &App<S>, plan: &Plan, owed: &Owed<'_>) -> Response {
    let decision = app.settle(owed).await;
    let answer = Answer::of_owed(owed, &decision);
    let mut response = if decision.is_allowed() {
        let mut response = json(StatusCode::OK, JSON, &body(&answer));
        describe(&answer, response.headers_mut());
        response
    } else {
        denial(&answer).map(Full::new)
    };
    describe_as_asked_for(plan, &answer, response.headers_mut());
    response
}

/// The fields that only some want.
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
