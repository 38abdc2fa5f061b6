//! `POST /v1/refund`: gives back what was taken and not used.

use http::StatusCode;
use tidegate::{Cost, Store};
use tidegate_http::{JSON, RateLimitAnswer, answer_body};

use super::HttpResponse;
use super::refusal::{HttpRefusal, json};
use super::request::HttpQuestion;
use crate::App;

/// The answer says how the limits stand afterwards.
pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> HttpResponse {
    match refund(app, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn refund<S: Store>(app: &App<S>, text: &[u8]) -> Result<HttpResponse, HttpRefusal> {
    let plan = app.limiter().plan();
    let question = HttpQuestion::read_refund(text)?;
    let owed = question.request_charges(&plan)?;
    if !question.units.is_peek()
        && let Err(error) = app.limiter().refund(&owed).await
    {
        let detail = format!("store {}: perhaps nothing was given back", error.kind());
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    // Bypasses the decision counts: nobody asked for a decision.
    let peek = question.subject.request_charges(&plan, Cost::PEEK)?;
    let decision = app.limiter().decide(&peek).await;
    Ok(json(StatusCode::OK, JSON, &answer_body(&RateLimitAnswer::of_charges(&peek, &decision))))
}
