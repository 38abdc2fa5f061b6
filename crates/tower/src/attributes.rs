//! What a plan may ask about a request.

use http::HeaderValue;
use http::header::HOST;
use tidegate_limiter::Plan;
use tidegate_http::{ClientIp, HttpRequest};

use crate::RequestHead;
use crate::config::Config;

/// Those that the plan asks for and the request has. What the program has named comes from the
/// program only, whatever a client says.
pub(crate) fn attributes(
    plan: &Plan,
    head: RequestHead<'_>,
    config: &Config,
) -> Vec<(Box<str>, Vec<u8>)> {
    let request = as_policies_see_it(plan, head, config);
    let value = |name: &str| match config.attributes.iter().find(|(other, _)| &**other == name) {
        Some((_, key)) => Some(key.value_of(head, &config.warnings)?.as_bytes().to_vec()),
        None if name == "route" => head.route().map(|route| route.as_bytes().to_vec()),
        None => request.attribute(name).map(Into::into),
    };
    plan.attributes().filter_map(|name| Some((name.into(), value(name)?))).collect()
}

fn as_policies_see_it<'a>(plan: &Plan, head: RequestHead<'a>, config: &Config) -> HttpRequest<'a> {
    let (uri, headers) = (head.uri(), head.headers());
    let client = match plan.settings().trusted_proxies() {
        [] => config.key.client(head, &config.warnings),
        proxies => ClientIp::behind_proxies(proxies.iter().copied()).of(head.peer(), headers),
    };
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    HttpRequest {
        method: Some(head.method().as_str().as_bytes()),
        scheme: uri.scheme_str().map(str::as_bytes),
        host: host.or_else(|| uri.authority().map(|it| it.as_str().as_bytes())),
        target: uri.path_and_query().map(|target| target.as_str().as_bytes()),
        client,
        headers,
    }
}
