//! `GET /check?userId=ID`, for a server whose configuration is an RLaaS file.

use std::io::Write as _;

use bytes::Bytes;
use tidegate::{Cost, Decision, Plan, Span, Store};
use tidegate_http::{RateLimitAnswer, query_values};

use super::diagnosis::bounded;
use super::refusal::HttpRefusal;
use super::{HttpResponse, check};
use crate::App;

/// 200 or 429, as there, with our body and headers.
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
    // Whoever reads the query behind us may take the other one.
    if users.any(|other| other != user) {
        let message = "`userId` is there twice, with different values: expected one";
        return HttpRefusal::invalid(Some("userId"), message).into();
    }
    if let Err(refusal) = bounded(&user, || "userId".to_owned()) {
        return refusal.into();
    }
    let owed = plan.charges(&[("userId", user)], Cost::ONE);
    let decision = app.decide(&owed).await;
    let response = check::response(plan, &RateLimitAnswer::of_charges(&owed, &decision));
    response.map(|body| with_count(&body, &decision).unwrap_or(body))
}

/// The members that RLaaS has and we do not: how many requests are counted, this one among them if
/// it may happen, and for how many seconds.
fn with_count(body: &Bytes, decision: &Decision) -> Option<Bytes> {
    let count = decision.limit()?.saturating_sub(decision.remaining()?);
    let ttl = decision.reset_after().map(Span::as_millis_ceil)?.div_ceil(1_000);
    let mut text = body.strip_suffix(b"}")?.to_vec();
    write!(text, r#","count":{count},"ttl":{ttl}}}"#).ok()?;
    Some(text.into())
}
