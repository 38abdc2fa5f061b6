//! The attributes of a request that a plan uses.

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

/// The name and the value of an attribute.
pub(crate) type OwnedAttribute = (Box<str>, Vec<u8>);

/// The attributes that the plan uses and the request has. An attribute that the program sets comes from
/// the program only, whatever the client sends. An attribute that can be read in two ways is refused: the
/// layer might count by one reading and a handler use the other.
pub(crate) fn attributes(
    plan: &Plan,
    head: &RequestHead<'_>,
    config: &LayerConfig,
) -> Result<Vec<OwnedAttribute>, RequestFault> {
    let rules = config.requests.unwrap_or(plan.settings().requests());
    let request = plan_request(plan, head, config, rules);
    let context = KeyContext { rules, ..config.key_context(head) };
    let value = |name: &str| -> Result<Option<Vec<u8>>, RequestFault> {
        Ok(match config.attributes.iter().find(|(other, _)| &**other == name) {
            Some((_, key)) => key.value_of(context)?,
            None if name == "route" => head.route().map(|route| route.as_bytes().to_vec()),
            // A shadow layer refuses nothing.
            None if config.is_shadow => request.attribute(name).map(Cow::into_owned),
            // A service may have a default name for requests without a host, so they are refused.
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
    // Only if a policy uses it: the lookup can print a warning about an untrusted proxy.
    let wants_client = plan.attributes().any(|name| name == "ip") && !is_named();
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    HttpRequest {
        method: Some(head.method().as_str().as_bytes()),
        scheme: uri.scheme_str().map(str::as_bytes),
        host: host.or_else(|| uri.authority().map(|authority| authority.as_str().as_bytes())),
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

/// The client's address. Never missing: a policy by address would not apply to a request without one.
fn client(plan: &Plan, context: KeyContext<'_>, config: &LayerConfig) -> IpAddr {
    context.or_unspecified(match plan.settings().trusted_proxies() {
        [] => config.key.client(context),
        proxies => context.client_behind(&ClientIp::behind_proxies(proxies.iter().copied())),
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

    /// Whether a request through a proxy triggers the warning that no proxy is trusted.
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
