//! `POST /v1/check`: a question in, a decision out.

use std::collections::HashMap;

use http::StatusCode;
use http_body_util::Full;
use tidegate::config::PlannedPolicy;
use tidegate::{Attributes, Cost, Owed, Plan, Store};
use tidegate_http::{Answer, JSON, body, denial, describe};
use tidegate_wire::Text;

use super::Response;
use super::problem::{Refusal, json};
use super::request::{Check, Subject, bounded};
use crate::App;

pub(super) async fn answer<S: Store>(app: &App<S>, body: &[u8]) -> Response {
    // Once: the whole answer is by one plan, whatever is loaded meanwhile.
    let plan = app.limiter().plan();
    match owed(&plan, body) {
        Ok(owed) => respond(app, &owed).await,
        Err(refusal) => refusal.into(),
    }
}

/// Decides, and says so.
pub(super) async fn respond<S: Store>(app: &App<S>, owed: &Owed<'_>) -> Response {
    let decision = app.settle(owed).await;
    let answer = Answer::of_owed(owed, &decision);
    if decision.is_allowed() { allowed(&answer) } else { denial(&answer).map(Full::new) }
}

fn owed<'p>(plan: &'p Plan, body: &[u8]) -> Result<Owed<'p>, Refusal> {
    let Check { subject, cost } = Check::read(body)?;
    match &subject {
        Subject::Named { policy, key } => of_policy(plan, policy, key, cost),
        Subject::Described(attributes) => {
            let attributes = Described(attributes);
            for name in plan.attributes() {
                bounded(attributes.attribute(name).unwrap_or_default(), || {
                    format!("attributes.{name}")
                })?;
            }
            Ok(plan.charges(&attributes, cost))
        }
    }
}

/// A policy by name, whose key is one attribute.
fn of_policy<'p>(plan: &'p Plan, name: &str, key: &str, cost: Cost) -> Result<Owed<'p>, Refusal> {
    let Some(policy) = plan.policy(name) else {
        return Err(Refusal::unknown_policy(name, plan.policies().iter().map(PlannedPolicy::name)));
    };
    bounded(key.as_bytes(), || "key".to_owned())?;
    let parts: Vec<&str> = policy.key().collect();
    let [attribute] = parts[..] else {
        return Err(Refusal::not_one_key(name, &parts));
    };
    let owed = plan.charges_of(name, &[(attribute, key)], cost);
    owed.ok_or_else(|| Refusal::not_one_key(name, &parts))
}

/// The attributes of a request; `null` is absent.
struct Described<'a>(&'a HashMap<Text<'a>, Option<Text<'a>>>);

impl Attributes for Described<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name)?.as_ref().map(|value| value.as_bytes())
    }
}

fn allowed(answer: &Answer<'_, '_>) -> Response {
    let mut response = json(StatusCode::OK, JSON, &body(answer));
    describe(answer, response.headers_mut());
    response
}
