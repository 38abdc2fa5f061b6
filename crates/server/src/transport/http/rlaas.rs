//! `GET /check?userId=ID`: RLaaS's check, for a server whose configuration is an RLaaS file.

use std::io::Write as _;

use bytes::Bytes;
use tidegate::{ChargeIntent, Cost, Decision, Plan, Span, Store};
use tidegate_http::{RateLimitAnswer, query_values};

use super::diagnosis::bounded;
use super::refusal::HttpRefusal;
use super::{HttpResponse, check};
use crate::App;

/// Answers with 200 or 429, as RLaaS does, but with our body and headers.
pub(super) async fn answer<S: Store>(
    app: &App<S>,
    plan: &Plan,
    query: Option<&str>,
) -> HttpResponse {
    let mut users = query_values(query.unwrap_or_default().as_bytes(), "userId");
    let Some(user) = users.next() else {
        return HttpRefusal::invalid(
            Some("userId"),
            "`userId` is missing: expected /check?userId=ID",
        )
        .into();
    };
    // A backend that reads the same query could use the other value.
    if users.any(|other| other != user) {
        let message = "`userId` occurs twice, with different values: expected one";
        return HttpRefusal::invalid(Some("userId"), message).into();
    }
    if let Err(refusal) = bounded(&user, || "userId".to_owned()) {
        return refusal.into();
    }
    let charges = plan.charges(&[("userId", user)], Cost::ONE);
    let decision = app.decide(&charges, ChargeIntent::Take).await;
    let response = check::response(plan, &RateLimitAnswer::of_charges(&charges, &decision));
    response.map(|body| with_count(&body, &decision).unwrap_or(body))
}

/// Adds the members that only RLaaS has: the number of counted requests, including this one if it is
/// allowed, and the seconds until the count resets.
fn with_count(body: &Bytes, decision: &Decision) -> Option<Bytes> {
    let count = decision.limit()?.saturating_sub(decision.remaining()?);
    let ttl = decision.reset_span().map(Span::as_millis_ceil)?.div_ceil(1_000);
    let mut text = body.strip_suffix(b"}")?.to_vec();
    write!(text, r#","count":{count},"ttl":{ttl}}}"#).ok()?;
    Some(text.into())
}
