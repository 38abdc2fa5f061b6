//! `POST /v1/check/batch`: decides many checks in one request.

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::value::RawValue;
use tidegate::{ChargeIntent, Decision, Plan, RequestCharges, Store};
use tidegate_http::{JSON, RateLimitAnswer, answer_body};
use tidegate_wire::{BatchResponse, BatchResult};

use super::HttpResponse;
use super::refusal::{HttpRefusal, json};
use super::request::{HttpQuestion, read_checks};
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> HttpResponse {
    let checks = match read_checks(body) {
        Ok(checks) => checks,
        Err(refusal) => return refusal.into(),
    };
    let plan = app.limiter().plan();
    let charges: Vec<_> =
        (0..).zip(checks).map(|(index, check)| request_charges(&plan, check, index)).collect();
    // All concurrently: a remote store can then handle them in as few calls as possible.
    let decisions =
        join_all(charges.iter().map(|charges| decision(app, charges.as_ref().ok()))).await;
    let results = charges.iter().zip(&decisions).filter_map(|(charges, decision)| match charges {
        Ok(charges) => Some(batch_result(charges, decision.as_ref()?)),
        Err(refusal) => Some(BatchResult::Refused(refusal.problem())),
    });
    json(StatusCode::OK, JSON, &BatchResponse { results: results.collect() })
}

fn request_charges<'p>(
    plan: &'p Plan,
    check: &RawValue,
    index: usize,
) -> Result<RequestCharges<'p>, HttpRefusal> {
    let question = HttpQuestion::read_check(check.get().as_bytes());
    let charges = question.and_then(|question| question.request_charges(plan));
    charges.map_err(|refusal| refusal.within(&format!("checks[{index}]")))
}

async fn decision<S: Store>(
    app: &App<S>,
    charges: Option<&RequestCharges<'_>>,
) -> Option<Decision> {
    Some(app.decide(charges?, ChargeIntent::Take).await)
}

fn batch_result<'a>(charges: &'a RequestCharges<'_>, decision: &'a Decision) -> BatchResult<'a> {
    BatchResult::Decided(answer_body(&RateLimitAnswer::of_charges(charges, decision)))
}
