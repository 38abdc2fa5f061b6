//! Reconstructs the original request from the headers of a proxy's `/v1/authz` request.

use std::net::IpAddr;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use tidegate::config::RequestRules;
use tidegate_http::{HttpRequest, RequestFault, RequestHost};

use super::refusal::HttpRefusal;

/// The path of the requests that proxies send.
const AUTHZ_PATH: &str = "/v1/authz";

/// The part of a path below [`AUTHZ_PATH`]: empty, or a path. `None` if the path is not below it.
pub(super) fn path_below_authz(path: &str) -> Option<&str> {
    path.strip_prefix(AUTHZ_PATH).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Reads the original request.
///
/// Proxies describe it in one of three ways: in `X-Forwarded-*` headers (Traefik, Caddy), in
/// `X-Original-*` headers (nginx), or by sending the request itself, with its own path below
/// [`AUTHZ_PATH`] (Envoy).
///
/// Most proxies also forward all other headers of the client. So a client can add the headers of another
/// proxy's way to those of its own proxy. If two ways differ in anything, the proxy's way cannot be
/// identified, and the request is refused. A missing value differs from a present one: otherwise a client
/// could remove the method that a policy depends on.
pub(super) fn original_request(
    head: &Parts,
    client: Option<IpAddr>,
    rules: RequestRules,
) -> Result<HttpRequest<'_>, HttpRefusal> {
    let headers = &head.headers;
    if path_below_authz(head.uri.path()).is_some_and(|path| !path.is_empty()) {
        return Ok(request_itself(head, client, rules)?);
    }
    let ways = [
        forwarded_head(headers)?,
        original_head(headers, "x-original-uri")?,
        original_head(headers, "x-original-url")?,
    ];
    let mut ways = ways.into_iter().flatten();
    // Without any of these headers, only the client's address and the other headers are known.
    let original = ways.next().unwrap_or_default();
    if ways.any(|other| other != original) {
        return Err(contradiction(
            "X-Forwarded-Uri, X-Original-URI and X-Original-URL, or in the methods, hosts and \
             schemes that go with them",
        ));
    }
    let OriginalHead { method, scheme, host, target } = original;
    Ok(HttpRequest { method, scheme, host, target, client, headers, rules })
}

/// The original request's head, as one of the ways describes it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct OriginalHead<'h> {
    method: Option<&'h [u8]>,
    scheme: Option<&'h [u8]>,
    host: Option<&'h [u8]>,
    target: Option<&'h [u8]>,
}

fn forwarded_head(headers: &HeaderMap) -> Result<Option<OriginalHead<'_>>, HttpRefusal> {
    let Some(url) = single_value(headers, "x-forwarded-uri")?.map(OriginalUrl::read) else {
        return Ok(None);
    };
    Ok(Some(OriginalHead {
        method: single_value(headers, "x-forwarded-method")?,
        scheme: single_value(headers, "x-forwarded-proto")?.or(url.scheme),
        host: single_value(headers, "x-forwarded-host")?.or(url.host),
        target: Some(url.target),
    }))
}

fn original_head<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<OriginalHead<'h>>, HttpRefusal> {
    let Some(url) = single_value(headers, name)?.map(OriginalUrl::read) else { return Ok(None) };
    Ok(Some(OriginalHead {
        method: single_value(headers, "x-original-method")?,
        scheme: url.scheme,
        host: url.host.or_else(|| headers.get(HOST).map(HeaderValue::as_bytes)),
        target: Some(url.target),
    }))
}

/// The received request is the original one, except for the prefix of its path.
fn request_itself(
    head: &Parts,
    client: Option<IpAddr>,
    rules: RequestRules,
) -> Result<HttpRequest<'_>, RequestFault> {
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    if authority.is_some() {
        RequestHost::of(&head.uri, &head.headers)?;
    }
    Ok(HttpRequest {
        method: Some(head.method.as_str().as_bytes()),
        scheme: head.uri.scheme_str().map(str::as_bytes),
        host: head.headers.get(HOST).map(HeaderValue::as_bytes).or(authority),
        target: Some(target.strip_prefix(AUTHZ_PATH).unwrap_or(target).as_bytes()),
        client,
        headers: &head.headers,
        rules,
    })
}

/// The only value of a header. Two different values are refused: one is the proxy's and one the
/// client's, in an unknown order.
fn single_value<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h [u8]>, HttpRefusal> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        return Err(contradiction(name));
    }
    Ok(first)
}

fn contradiction(names: &str) -> HttpRefusal {
    let detail =
        format!("contradictory values in {names}: expected only those that the proxy sets");
    HttpRefusal::invalid(None, detail)
}

/// A path with its query, and optionally the scheme and host before it.
#[derive(Clone, Copy)]
struct OriginalUrl<'a> {
    scheme: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
    target: &'a [u8],
}

impl<'a> OriginalUrl<'a> {
    fn read(text: &'a [u8]) -> Self {
        let whole = Self { scheme: None, host: None, target: text };
        if text.starts_with(b"/") {
            return whole;
        }
        let Some(colon) = text.windows(3).position(|three| three == b"://") else { return whole };
        let (scheme, rest) = (text.get(..colon), text.get(colon + 3..).unwrap_or_default());
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
        let (host, target) = rest.split_at(end.unwrap_or(rest.len()));
        Self { scheme, host: Some(host), target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(uri: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().method("PUT").uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// Method, host and path, as policies see them.
    fn seen(uri: &str, fields: &[(&'static str, &str)]) -> [Option<String>; 3] {
        let head = head(uri, fields);
        let request = original_request(&head, None, RequestRules::default()).unwrap();
        ["method", "host", "path"]
            .map(|name| Some(String::from_utf8(request.attribute(name)?.into_owned()).unwrap()))
    }

    fn expected(values: [&str; 3]) -> [Option<String>; 3] {
        values.map(|value| Some(value.to_owned()).filter(|value| !value.is_empty()))
    }

    #[test]
    fn every_proxys_fields_describe_the_original_request() {
        let forwarded = [
            ("x-forwarded-method", "POST"),
            ("x-forwarded-host", "api.example.com"),
            ("x-forwarded-uri", "/a?b=c"),
        ];
        let as_forwarded = expected(["POST", "api.example.com", "/a"]);
        assert_eq!(seen("/v1/authz", &forwarded), as_forwarded);
        let original = [("host", "x"), ("x-original-method", "POST"), ("x-original-uri", "/a?b")];
        assert_eq!(seen("/v1/authz", &original), expected(["POST", "x", "/a"]));
        let url = [("host", "x"), ("x-original-url", "https://example.com:8443/a?b=c")];
        assert_eq!(seen("/v1/authz", &url), expected(["", "example.com", "/a"]));
        let itself = expected(["PUT", "x", "/a/b"]);
        assert_eq!(seen("/v1/authz/a/b?c", &[("host", "x")]), itself);
        assert_eq!(seen("/v1/authz", &[("host", "x")]), expected(["", "", ""]));
    }

    #[test]
    fn fields_of_another_proxys_way_change_nothing() {
        // If the request itself has the original path, headers do not override it.
        let spoofed = [("host", "x"), ("x-forwarded-uri", "/b"), ("x-original-method", "GET")];
        assert_eq!(seen("/v1/authz/a", &spoofed), expected(["PUT", "x", "/a"]));
        // A method counts only together with the path of the same way.
        let spoofed = [("x-original-uri", "/a"), ("x-forwarded-method", "GET")];
        assert_eq!(seen("/v1/authz", &spoofed), expected(["", "", "/a"]));
    }

    #[test]
    fn two_descriptions_may_agree() {
        let agreed = [("x-original-uri", "/a"), ("x-forwarded-uri", "/a")];
        assert_eq!(seen("/v1/authz", &agreed), expected(["", "", "/a"]));
        let agreed = [
            ("x-original-method", "POST"),
            ("x-original-url", "https://x/a"),
            ("x-forwarded-method", "POST"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "x"),
            ("x-forwarded-uri", "/a"),
        ];
        assert_eq!(seen("/v1/authz", &agreed), expected(["POST", "x", "/a"]));
    }

    #[test]
    fn an_additional_description_removes_nothing() {
        // The headers of our nginx example, and what a client adds with the same target.
        let nginx = [("host", "x"), ("x-original-method", "POST"), ("x-original-uri", "/a")];
        for added in [
            &[("x-forwarded-uri", "/a")][..],
            &[("x-forwarded-uri", "/a"), ("x-forwarded-method", "GET"), ("x-forwarded-host", "x")],
            &[("x-forwarded-uri", "/a"), ("x-forwarded-method", "POST")],
            &[
                ("x-forwarded-uri", "/a"),
                ("x-forwarded-method", "POST"),
                ("x-forwarded-host", "x"),
                ("x-forwarded-proto", "http"),
            ],
            &[("x-original-url", "https://y/a")],
            &[("x-original-url", "https://x/a")],
        ] {
            is_refused(&[&nginx, added].concat());
        }
    }

    #[test]
    fn a_contradiction_is_refused() {
        for fields in [
            [("x-forwarded-uri", "/a"), ("x-original-uri", "/b")],
            [("x-forwarded-uri", "/a"), ("x-original-url", "https://x/b")],
            [("x-original-uri", "/a"), ("x-original-url", "https://x/b")],
            [("x-forwarded-uri", "/a"), ("x-forwarded-uri", "/b")],
        ] {
            is_refused(&fields);
        }
    }

    fn is_refused(fields: &[(&'static str, &str)]) {
        let head = head("/v1/authz", fields);
        let refusal =
            original_request(&head, None, RequestRules::default()).unwrap_err().to_string();
        assert!(refusal.contains("contradictory values"), "{fields:?}: {refusal}");
    }

    #[test]
    fn a_prefix_matches_whole_segments_only() {
        let cases = [("/v1/authz", Some("")), ("/v1/authz/", Some("/")), ("/v1/authzx", None)];
        for (path, rest) in cases {
            assert_eq!(path_below_authz(path), rest);
        }
    }
}
