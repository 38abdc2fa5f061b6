//! `/v1/authz`: decides whether a proxy should let a request pass.

use std::net::IpAddr;
use std::sync::Once;

use http::header::{CACHE_CONTROL, COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use tidegate::{ChargeIntent, Cost, Plan, RequestCharges, Store};
use tidegate_http::{ClientIp, RateLimitAnswer, RequestFault, denial, describe};

use super::HttpResponse;
use super::check::describe_if_configured;
use super::original_request::{original_request, path_below_authz};
use super::refusal::{HttpRefusal, with_valid_cost};
use crate::App;
use crate::service::log::{self, LogLevel};

/// Answers with 200, or with 429 and everything that the client needs to know, or with 400 if the request
/// is invalid.
pub(super) async fn answer<S: Store>(
    app: &App<S>,
    peer: Option<IpAddr>,
    head: &Parts,
) -> HttpResponse {
    let plan = app.limiter().plan();
    let client = client(&plan, peer, &head.headers);
    let charges = match request_charges(&plan, head, client) {
        Ok(charges) => charges,
        Err(refusal) => return refusal.into(),
    };
    let decision = app.decide(&charges, ChargeIntent::Take).await;
    let answer = RateLimitAnswer::of_charges(&charges, &decision);
    let mut response = if decision.is_allowed() {
        let mut response = HttpResponse::default();
        describe(&answer, response.headers_mut());
        response
    } else {
        denial(&answer)
    };
    let headers = response.headers_mut();
    describe_if_configured(&plan, &answer, headers);
    // A proxy can forward this response: no cache may store a denial and serve it to other clients.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The charges of the original request.
fn request_charges<'p>(
    plan: &'p Plan,
    head: &Parts,
    client: Option<IpAddr>,
) -> Result<RequestCharges<'p>, HttpRefusal> {
    let request = original_request(head, client, plan.settings().requests())?;
    if has_two_cookie_fields(head) && plan.attributes().any(|name| name.contains("cookie")) {
        return Err(RequestFault::twice("header:cookie").into());
    }
    // Some services read what follows two slashes as a host, and a fragment as part of the path. The gateway
    // forwards neither, but a proxy forwards what it received.
    let is_odd = |target: &[u8]| target.starts_with(b"//") || target.contains(&b'#');
    let wants_target = |name: &str| name == "path" || name.starts_with("query:");
    if request.target.is_some_and(is_odd) && plan.attributes().any(wants_target) {
        return Err(RequestFault::Path("begins with two slashes, or has a fragment").into());
    }
    let attributes = request.attributes(plan.attributes())?;
    with_valid_cost(plan.charges(&attributes, Cost::ONE), "")
}

/// Whether the proxy forwards more than one cookie header, of which some services read only the first. A
/// proxy that sends the request itself, such as Envoy, joins them with a comma. HTTP/2 can split cookies
/// into several headers, but proxies join those.
fn has_two_cookie_fields(head: &Parts) -> bool {
    let mut fields = head.headers.get_all(COOKIE).iter();
    let Some(first) = fields.next() else { return false };
    let is_itself = path_below_authz(head.uri.path()).is_some_and(|path| !path.is_empty());
    let is_joined = is_itself && first.as_bytes().contains(&b',');
    is_joined || head.version < Version::HTTP_2 && fields.next().is_some()
}

/// Whether a path is `/v1/authz` or below it.
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
            log::emit(LogLevel::Warn, "untrusted_proxy", &untrusted_proxy_message(peer), &[]);
        });
    }
    ClientIp::behind(proxies, peer, headers)
}

fn untrusted_proxy_message(peer: IpAddr) -> String {
    format!(
        "a proxy at {peer} sends X-Forwarded-For, but trusted_proxies does not list it: all clients \
         behind it count as one address"
    )
}

/// Logged once per process: every further request would repeat it.
static WARNED: Once = Once::new();
