//! Properties of the request reader under hostile input. The target in `fuzz/` searches for inputs that
//! break them, and an ordinary test checks them against the corpus.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a property panics")]

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use tidegate_limiter::config::{PathParameters, RequestRules};
use tidegate_limiter::path_in_normal_form;

use crate::{
    ClientIp, HttpRequest, RequestHost, RequestPath, only_bearer, only_cookie, only_parameter,
};

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

/// A host has one name in all of its spellings.
fn hosts(host: &[u8]) {
    let Ok(read) = RequestHost::read(host) else { return };
    assert_eq!(read.name(), read.name().to_ascii_lowercase());
    assert!(read.text().starts_with(read.name()));
    let upper = host.to_ascii_uppercase();
    for again in [&upper[..], read.text().as_bytes()] {
        assert_eq!(
            RequestHost::read(again).as_ref(),
            Ok(&read),
            "another spelling is another host"
        );
    }
}

/// An attribute has one value, or is refused, and a path is in normal form.
fn attributes(target: &[u8], host: &[u8], headers: &HeaderMap) {
    for rules in [RequestRules::default(), lenient()] {
        let request = HttpRequest {
            method: Some(b"GET"),
            scheme: Some(b"http"),
            host: Some(host),
            target: Some(target),
            client: None,
            headers,
            rules,
        };
        for name in NAMES {
            if let Ok(only) = request.only_attribute(name) {
                assert_eq!(only, request.attribute(name), "{name}");
            }
        }
        if let Ok(Some(path)) = request.only_attribute("path") {
            assert_eq!(path_in_normal_form(&path), path);
            let again = RequestPath::read(&path, &rules);
            assert_eq!(again.as_ref().map(RequestPath::counted), Ok(&*path));
        }
        if let Ok(Some(token)) = only_bearer(headers, &rules) {
            assert!(token.iter().all(u8::is_ascii_graphic), "{}", token.escape_ascii());
        }
    }
}

/// An appended parameter is the only one, or the request is refused. It is never overlooked.
fn parameters(target: &[u8]) {
    let query = target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
    let more = [query, b"&%75ser=b%6Fb"].concat();
    for rules in [RequestRules::default(), lenient()] {
        let before = only_parameter(query, "user", &rules);
        let after = only_parameter(&more, "user", &rules);
        let is_refused = after.is_err();
        assert!(is_refused || matches!(before, Ok(None)), "{before:?}");
        assert!(is_refused || after.is_ok_and(|it| it.as_deref() == Some(b"bob")));
    }
}

/// The same for a cookie.
fn cookies(headers: &HeaderMap) {
    let mut more = headers.clone();
    more.append(http::header::COOKIE, HeaderValue::from_static("sid=abc"));
    for rules in [RequestRules::default(), lenient()] {
        let before = only_cookie(headers, "sid", &rules);
        let after = only_cookie(&more, "sid", &rules);
        let is_refused = after.is_err();
        assert!(is_refused || matches!(before, Ok(None)), "{before:?}");
        assert!(is_refused || after.is_ok_and(|it| it.as_deref() == Some(b"abc")));
    }
}

/// The most lenient rules.
fn lenient() -> RequestRules {
    let rules =
        RequestRules::default().path_parameters(PathParameters::Keep).keep_encoded_slashes();
    rules.keep_underscores().keep_override_fields().keep_odd_cookies().keep_odd_queries()
}

/// Whatever a client sends in `X-Forwarded-For`, the address that a trusted proxy appends counts.
fn clients(headers: &mut HeaderMap) {
    let proxy: Option<IpAddr> = "10.0.0.1".parse().ok();
    let client: Option<IpAddr> = "203.0.113.9".parse().ok();
    assert_eq!(ClientIp::of_socket().of(proxy, headers), proxy);
    let networks = ["10.0.0.0/8".parse().unwrap()];
    for trust in [ClientIp::behind_hops(1), ClientIp::behind_proxies(networks)] {
        let _ = trust.of(proxy, headers);
        let mut more = headers.clone();
        more.append("x-forwarded-for", HeaderValue::from_static("203.0.113.9"));
        assert_eq!(trust.of(proxy, &more), client);
        let sent = headers.get("x-forwarded-for").map(HeaderValue::as_bytes).unwrap_or_default();
        let joined = HeaderValue::from_bytes(&[sent, b", 203.0.113.9"].concat()).unwrap();
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
