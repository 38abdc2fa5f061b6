//! `POST /v1/refund`: gives back units that a check took and that were not used.

use http::StatusCode;
use tidegate::{ChargeIntent, Cost, Store};
use tidegate_http::{JSON, RateLimitAnswer, answer_body};

use super::HttpResponse;
use super::refusal::{HttpRefusal, json};
use super::request::HttpQuestion;
use crate::App;

/// Refunds, and answers with the state of the limits afterwards.
pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> HttpResponse {
    match refund(app, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn refund<S: Store>(app: &App<S>, text: &[u8]) -> Result<HttpResponse, HttpRefusal> {
    let plan = app.limiter().plan();
    let question = HttpQuestion::read_refund(text)?;
    let charges = question.request_charges(&plan)?;
    if !question.units.is_peek()
        && let Err(error) = app.limiter().refund(&charges).await
    {
        let detail = format!("store {}: perhaps nothing was given back", error.kind());
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    // Directly with the limiter, so that metrics do not count it: the client requested no decision.
    let peek = question.subject.request_charges(&plan, Cost::PEEK)?;
    let decision = app.limiter().decide(&peek, ChargeIntent::Take).await;
    Ok(json(StatusCode::OK, JSON, &answer_body(&RateLimitAnswer::of_charges(&peek, &decision))))
}
