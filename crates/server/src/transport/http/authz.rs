//! `/v1/authz`: whether a request may pass, for a proxy that asks before letting anybody through.

use std::net::IpAddr;
use std::sync::Once;

use http::header::CACHE_CONTROL;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use tidegate::{Cost, Owed, Plan, Store};
use tidegate_http::{Answer, ClientIp, denial, describe};

use super::Response;
use super::check::describe_as_asked_for;
use super::original::{below, original};
use super::problem::{Refusal, priced};
use crate::App;
use crate::log::{self, Level};

/// 200, or 429 with everything that the client should be told; 400 for an invalid request.
pub(super) async fn answer<S: Store>(app: &App<S>, peer: Option<IpAddr>, head: &Parts) -> Response {
    let plan = app.limiter().plan();
    let client = client(&plan, peer, &head.headers);
    let owed = match owed(&plan, head, client) {
        Ok(owed) => owed,
        Err(refusal) => return refusal.into(),
    };
    let decision = app.settle(&owed).await;
    let answer = Answer::of_owed(&owed, &decision);
    let mut response = if decision.is_allowed() {
        let mut response = Response::default();
        describe(&answer, response.headers_mut());
        response
    } else {
        denial(&answer)
    };
    let headers = response.headers_mut();
    describe_as_asked_for(&plan, &answer, headers);
    // Proxies may pass it on: no cache may keep a denial for others.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What the request that is asked about owes.
fn owed<'p>(plan: &'p Plan, head: &Parts, client: Option<IpAddr>) -> Result<Owed<'p>, Refusal> {
    let request = original(head, client, plan.settings().requests())?;
    let attributes = request.attributes(plan.attributes())?;
    priced(plan.charges(&attributes, Cost::ONE), "")
}

/// Whether a path is ours.
pub(super) fn is_here(path: &str) -> bool {
    below(path).is_some()
}

fn client(plan: &Plan, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
    let proxies = plan.settings().trusted_proxies();
    if proxies.is_empty()
        && let Some(peer) = peer.filter(|_| headers.contains_key("x-forwarded-for"))
        && plan.attributes().any(|name| name == "ip")
    {
        WARNED.call_once(|| log::say(Level::Warn, "untrusted_proxy", &distrust(peer), &[]));
    }
    ClientIp::behind(proxies, peer, headers)
}

fn distrust(peer: IpAddr) -> String {
    format!(
        "a proxy at {peer} says X-Forwarded-For, and trusted_proxies does not have it: all who come \
         through it count as one address"
    )
}

/// Once in the life of a process: the next request would say the same.
static WARNED: Once = Once::new();
