//! `/v1/authz`: whether a request may pass, for a proxy that asks before letting anybody through.

use std::net::IpAddr;
use std::sync::Once;

use http::header::{CACHE_CONTROL, COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use tidegate::{Cost, Plan, RequestCharges, Store};
use tidegate_http::{ClientIp, RateLimitAnswer, RequestFault, denial, describe};

use super::HttpResponse;
use super::check::describe_if_configured;
use super::original_request::{original_request, path_below_authz};
use super::refusal::{HttpRefusal, with_valid_cost};
use crate::App;
use crate::log::{self, LogLevel};

/// 200, or 429 with everything that the client should be told; 400 for an invalid request.
pub(super) async fn answer<S: Store>(
    app: &App<S>,
    peer: Option<IpAddr>,
    head: &Parts,
) -> HttpResponse {
    let plan = app.limiter().plan();
    let client = client(&plan, peer, &head.headers);
    let owed = match request_charges(&plan, head, client) {
        Ok(owed) => owed,
        Err(refusal) => return refusal.into(),
    };
    let decision = app.decide(&owed).await;
    let answer = RateLimitAnswer::of_charges(&owed, &decision);
    let mut response = if decision.is_allowed() {
        let mut response = HttpResponse::default();
        describe(&answer, response.headers_mut());
        response
    } else {
        denial(&answer)
    };
    let headers = response.headers_mut();
    describe_if_configured(&plan, &answer, headers);
    // Proxies may pass it on: no cache may keep a denial for others.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What the request that is asked about owes.
fn request_charges<'p>(
    plan: &'p Plan,
    head: &Parts,
    client: Option<IpAddr>,
) -> Result<RequestCharges<'p>, HttpRefusal> {
    let request = original_request(head, client, plan.settings().requests())?;
    if has_two_cookie_fields(head) && plan.attributes().any(|name| name.contains("cookie")) {
        return Err(RequestFault::twice("header:cookie").into());
    }
    // To some services what follows two slashes is a host, and a fragment is part of the path. The gateway
    // forwards neither; a proxy forwards what it got.
    let is_odd = |target: &[u8]| target.starts_with(b"//") || target.contains(&b'#');
    let wants_target = |name: &str| name == "path" || name.starts_with("query:");
    if request.target.is_some_and(is_odd) && plan.attributes().any(wants_target) {
        return Err(RequestFault::Path("begins with two slashes, or has a fragment").into());
    }
    let attributes = request.attributes(plan.attributes())?;
    with_valid_cost(plan.charges(&attributes, Cost::ONE), "")
}

/// Whether the proxy passes on more than one field of cookies, of which some services read the first alone.
/// A proxy that asks with the request itself joins them with a comma, as Envoy does. HTTP/2 may spread
/// cookies over fields; proxies put those together.
fn has_two_cookie_fields(head: &Parts) -> bool {
    let mut fields = head.headers.get_all(COOKIE).iter();
    let Some(first) = fields.next() else { return false };
    let is_itself = path_below_authz(head.uri.path()).is_some_and(|path| !path.is_empty());
    let is_joined = is_itself && first.as_bytes().contains(&b',');
    is_joined || head.version < Version::HTTP_2 && fields.next().is_some()
}

/// Whether a path is ours.
pub(super) fn is_authz_path(path: &str) -> bool {
    path_below_authz(path).is_some()
}

fn client(plan: &Plan, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
    let proxies = plan.settings().trusted_proxies();
    if proxies.is_empty()
        && let Some(peer) = peer.filter(|_| headers.contains_key("x-forwarded-for"))
        && plan.attributes().any(|name| name == "ip")
    {
        WARNED.call_once(|| {
            log::emit(LogLevel::Warn, "untrusted_proxy", &untrusted_proxy_message(peer), &[])
        });
    }
    ClientIp::behind(proxies, peer, headers)
}

fn untrusted_proxy_message(peer: IpAddr) -> String {
    format!(
        "a proxy at {peer} says X-Forwarded-For, and trusted_proxies does not have it: all who come \
         through it count as one address"
    )
}

/// Once in the life of a process: the next request would say the same.
static WARNED: Once = Once::new();
