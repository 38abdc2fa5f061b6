//! `POST /v1/refund`: gives back what was taken and not used.

use http::StatusCode;
use tidegate::{Cost, Store};
use tidegate_http::{Answer, JSON, body};

use super::Response;
use super::problem::{Refusal, json};
use super::request::Question;
use crate::App;

/// The answer says how the limits stand afterwards.
pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    match refund(app, body).await {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn refund<S: Store>(app: &App<S>, text: &[u8]) -> Result<Response, Refusal> {
    let plan = app.limiter().plan();
    let question = Question::refund(text)?;
    let owed = question.owed(&plan)?;
    if !question.units.is_peek()
        && let Err(error) = app.limiter().refund(&owed).await
    {
        let detail = format!("store {}: perhaps nothing was given back", error.kind());
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    // Bypasses the decision counts: nobody asked for a decision.
    let peek = question.subject.owed(&plan, Cost::PEEK)?;
    let decision = app.limiter().settle(&peek).await;
    Ok(json(StatusCode::OK, JSON, &body(&Answer::of_owed(&peek, &decision))))
}
