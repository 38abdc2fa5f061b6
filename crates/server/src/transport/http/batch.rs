//! `POST /v1/check/batch`: many questions in, a decision each.

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::value::RawValue;
use tidegate::{Decision, Owed, Plan, Store};
use tidegate_http::{Answer, JSON, body};
use tidegate_wire::{BatchResponse, BatchResult};

use super::Response;
use super::problem::{Refusal, json};
use super::request::{Question, checks};
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    let checks = match checks(body) {
        Ok(checks) => checks,
        Err(refusal) => return refusal.into(),
    };
    let plan = app.limiter().plan();
    let owed: Vec<_> = (0..).zip(checks).map(|(index, check)| owed(&plan, check, index)).collect();
    // All at once: a remote store can then handle them in as few calls as possible.
    let decisions = join_all(owed.iter().map(|owed| decision(app, owed.as_ref().ok()))).await;
    let results = owed.iter().zip(&decisions).filter_map(|(owed, decision)| match owed {
        Ok(owed) => Some(decided(owed, decision.as_ref()?)),
        Err(refusal) => Some(BatchResult::Refused(refusal.problem())),
    });
    json(StatusCode::OK, JSON, &BatchResponse { results: results.collect() })
}

fn owed<'p>(plan: &'p Plan, check: &RawValue, index: usize) -> Result<Owed<'p>, Refusal> {
    let question = Question::check(check.get().as_bytes());
    let owed = question.and_then(|question| question.owed(plan));
    owed.map_err(|refusal| refusal.within(&format!("checks[{index}]")))
}

async fn decision<S: Store>(app: &App<S>, owed: Option<&Owed<'_>>) -> Option<Decision> {
    Some(app.settle(owed?).await)
}

fn decided<'a>(owed: &'a Owed<'_>, decision: &'a Decision) -> BatchResult<'a> {
    BatchResult::Decided(body(&Answer::of_owed(owed, decision)))
}
