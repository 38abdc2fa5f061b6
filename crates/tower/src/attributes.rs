//! What a plan may ask about a request.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderValue;
use http::header::HOST;
use tidegate_http::{ClientIp, HttpRequest, RequestFault, RequestHost};
use tidegate_limiter::Plan;
use tidegate_limiter::config::RequestRules;

use crate::RequestHead;
use crate::config::LayerConfig;
use crate::key::KeyContext;

/// A name, and the value that a request has of it.
pub(crate) type OwnedAttribute = (Box<str>, Vec<u8>);

/// Those that the plan asks for and the request has. What the program has named comes from the
/// program only, whatever a client says. One that can be read in two ways is refused: we might count by
/// the one, and a handler go by the other.
pub(crate) fn attributes(
    plan: &Plan,
    head: &RequestHead<'_>,
    config: &LayerConfig,
) -> Result<Vec<OwnedAttribute>, RequestFault> {
    let rules = config.requests.unwrap_or(plan.settings().requests());
    let request = plan_request(plan, head, config, rules);
    let look = KeyContext { rules, ..config.key_context(head) };
    let value = |name: &str| -> Result<Option<Vec<u8>>, RequestFault> {
        Ok(match config.attributes.iter().find(|(other, _)| &**other == name) {
            Some((_, key)) => key.value_of(look)?,
            None if name == "route" => head.route().map(|route| route.as_bytes().to_vec()),
            // A layer that only watches refuses nobody.
            None if config.is_shadow => request.attribute(name).map(Cow::into_owned),
            // A service has a name of its own for requests without a host.
            None if name == "host" => Some(host(head)?),
            None => request.only_attribute(name)?.map(Cow::into_owned),
        })
    };
    let found = plan.attributes().filter_map(|name| {
        let value = value(name).transpose()?;
        Some(value.map(|value| (name.into(), value)))
    });
    found.collect()
}

fn plan_request<'a>(
    plan: &Plan,
    head: &'a RequestHead<'a>,
    config: &LayerConfig,
    rules: RequestRules,
) -> HttpRequest<'a> {
    let (uri, headers) = (head.uri(), head.headers());
    let is_named = || config.attributes.iter().any(|(name, _)| &**name == "ip");
    // Only if it is wanted: whoever looks for a client may be told that a proxy is in between.
    let wants_client = plan.attributes().any(|name| name == "ip") && !is_named();
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    HttpRequest {
        method: Some(head.method().as_str().as_bytes()),
        scheme: uri.scheme_str().map(str::as_bytes),
        host: host.or_else(|| uri.authority().map(|it| it.as_str().as_bytes())),
        target: uri.path_and_query().map(|target| target.as_str().as_bytes()),
        client: wants_client.then(|| client(plan, config.key_context(head), config)),
        headers,
        rules,
    }
}

fn host(head: &RequestHead<'_>) -> Result<Vec<u8>, RequestFault> {
    let host = RequestHost::of(head.uri(), head.headers())?.ok_or(RequestFault::NoHost)?;
    Ok(host.name().as_bytes().to_vec())
}

/// Never nobody: a policy by address would not be about a request without one.
fn client(plan: &Plan, look: KeyContext<'_>, config: &LayerConfig) -> IpAddr {
    look.or_unspecified(match plan.settings().trusted_proxies() {
        [] => config.key.client(look),
        proxies => look.client_behind(&ClientIp::behind_proxies(proxies.iter().copied())),
    })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use tidegate_limiter::config::PolicySource;
    use tidegate_limiter::{MemoryStore, PlanLimiter};

    use super::*;
    use crate::RequestKey;
    use crate::backend::sealed::SealedIntoBackend;

    /// Whether a request that came through a proxy makes us say that nobody spoke of one.
    fn warns(key: &str, attribute: Option<&str>) -> bool {
        let text = format!("policies: [{{ name: a, key: [{key}], limits: [1/day] }}]");
        let source = PolicySource::new("test", text).unwrap();
        let limiter = PlanLimiter::load(&source, MemoryStore::new()).unwrap();
        let plan = limiter.plan();
        let mut config = LayerConfig::new(limiter.into_backend());
        config
            .attributes
            .extend(attribute.map(|name| (name.into(), RequestKey::header("x-real-ip"))));
        let request = Request::get("/").header("x-forwarded-for", "203.0.113.9").body(()).unwrap();
        attributes(&plan, &RequestHead::of(&request), &config).unwrap();
        config.warnings.has_missed_a_proxy()
    }

    #[test]
    fn a_proxy_is_missed_only_where_an_address_is_wanted() {
        assert!(warns("ip", None));
        assert!(!warns("method", None));
        assert!(!warns("ip", Some("ip")));
    }
}
