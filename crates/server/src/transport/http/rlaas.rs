//! `GET /check?userId=ID`, for a server whose configuration is an RLaaS file.

use tidegate::{Cost, Plan, Store};
use tidegate_http::query_value;

use super::diagnose::bounded;
use super::problem::Refusal;
use super::{Response, check};
use crate::App;

/// 200 or 429, as there, with our body and headers.
pub(super) async fn answer<S: Store>(app: &App<S>, plan: &Plan, query: Option<&str>) -> Response {
    let Some(user) = query.and_then(|query| query_value(query.as_bytes(), "userId")) else {
        return Refusal::bad(Some("userId"), "`userId` is missing: expected /check?userId=ID")
            .into();
    };
    if let Err(refusal) = bounded(&user, || "userId".to_owned()) {
        return refusal.into();
    }
    check::respond(app, plan, &plan.charges(&[("userId", user)], Cost::ONE)).await
}
