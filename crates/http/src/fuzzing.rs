//! Properties of what reads hostile requests. The target in `fuzz/` searches for inputs that break them,
//! and an ordinary test holds them to the corpus.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a property panics")]

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{ClientIp, HttpRequest, cookie_values, host_name, query_values};

/// The first line is a target, the second a host, and each further line a field.
pub fn request(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let host = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines {
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(halves.next().unwrap_or_default());
        let value = HeaderValue::from_bytes(halves.next().unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    hosts(host);
    attributes(target, host, &headers);
    parameters(target);
    cookies(&headers);
    clients(&mut headers);
}

/// One host has one name, which is its own.
fn hosts(host: &[u8]) {
    let name = host_name(host);
    assert!(!name.iter().any(u8::is_ascii_uppercase));
    assert_eq!(host_name(&host.to_ascii_uppercase()), name, "letter case makes another host");
}

/// An attribute has one value, or is refused.
fn attributes(target: &[u8], host: &[u8], headers: &HeaderMap) {
    let request = HttpRequest {
        method: Some(b"GET"),
        scheme: Some(b"http"),
        host: Some(host),
        target: Some(target),
        client: None,
        headers,
    };
    for name in NAMES {
        let first = request.attribute(name);
        match request.only(name) {
            Ok(only) => assert_eq!(only, first, "{name}"),
            Err(refused) => assert_eq!(refused.attribute(), *name),
        }
    }
    let path = request.attribute("path").unwrap_or_default();
    assert!(!path.iter().any(|byte| matches!(byte, b'?' | b'#')), "a path with a query");
}

/// A parameter that is added is found, and hides no other.
fn parameters(target: &[u8]) {
    let query = target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
    let before: Vec<_> = query_values(query, "user").collect();
    let more = [query, b"&%75ser=b%6Fb"].concat();
    let after: Vec<_> = query_values(&more, "user").collect();
    assert_eq!(after.len(), before.len() + 1);
    assert_eq!(after.last().map(|value| &**value), Some(&b"bob"[..]));
}

/// A cookie that is added is found, and hides no other.
fn cookies(headers: &HeaderMap) {
    let before = cookie_values(headers, "sid").count();
    let mut more = headers.clone();
    more.append(http::header::COOKIE, HeaderValue::from_static("sid=abc"));
    assert_eq!(cookie_values(&more, "sid").count(), before + 1);
    assert_eq!(cookie_values(&more, "sid").last(), Some(&b"abc"[..]));
}

/// Whatever a client says about its way here, the address that a trusted proxy adds counts.
fn clients(headers: &mut HeaderMap) {
    let proxy: Option<IpAddr> = "10.0.0.1".parse().ok();
    let client: Option<IpAddr> = "203.0.113.9".parse().ok();
    assert_eq!(ClientIp::of_the_socket().of(proxy, headers), proxy);
    let networks = ["10.0.0.0/8".parse().unwrap()];
    for trust in [ClientIp::behind_hops(1), ClientIp::behind_proxies(networks)] {
        let _ = trust.of(proxy, headers);
        let mut more = headers.clone();
        more.append("x-forwarded-for", HeaderValue::from_static("203.0.113.9"));
        assert_eq!(trust.of(proxy, &more), client);
        let said = headers.get("x-forwarded-for").map(HeaderValue::as_bytes).unwrap_or_default();
        let joined = HeaderValue::from_bytes(&[said, b", 203.0.113.9"].concat()).unwrap();
        more.insert("x-forwarded-for", joined);
        assert_eq!(trust.of(proxy, &more), client);
    }
}

const NAMES: &[&str] = &[
    "host",
    "path",
    "api_key",
    "query:user",
    "header:x-user",
    "cookie:sid",
    "header:",
    "query:",
    "cookie:",
    "nothing",
];

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_is_read_in_one_way_or_refused() {
        tidegate_testkit::fuzz("request", super::request);
    }
}
