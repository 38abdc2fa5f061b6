//! Hop-by-hop fields, fields that only the gateway can write, and fields that override the request.

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use tidegate_http::RequestFault;

/// Whether a list field such as `Connection` contains a token.
pub(crate) fn has_token(headers: &HeaderMap, list: HeaderName, token: &str) -> bool {
    headers.get_all(list).iter().any(|value| tokens(value).any(|it| it.eq_ignore_ascii_case(token)))
}

/// The tokens of a list field's value.
pub(super) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let list = value.to_str().unwrap_or_default();
    list.split(',').map(str::trim).filter(|token| !token.is_empty())
}

/// The fields that a response's `Connection` names: they are not forwarded.
#[derive(Debug)]
pub(crate) struct HopByHopFields(SmallVec<[HeaderName; 2]>);

impl HopByHopFields {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter().flat_map(tokens);
        let names =
            values.filter(|token| !NEVER_STRIPPED.iter().any(|it| token.eq_ignore_ascii_case(it)));
        Self(names.filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok()).collect())
    }
}

/// Removes the fields of a response that concern only its connection.
pub(crate) fn strip_hop_fields(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        for name in HopByHopFields::of(headers).0 {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(*name);
    }
}

/// Refuses a request whose `Connection` names an end-to-end field. The client would have that field removed
/// after it was counted and before the service sees it.
pub(crate) fn check_connection(headers: &HeaderMap) -> Result<(), RequestFault> {
    for value in headers.get_all(CONNECTION) {
        for token in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let is_fit = |fit: &&str| token.eq_ignore_ascii_case(fit.as_bytes());
            if !token.is_empty() && !CONNECTION_TOKENS.iter().any(is_fit) {
                let token = String::from_utf8_lossy(token).into_owned();
                return Err(RequestFault::Connection(token));
            }
        }
    }
    Ok(())
}

/// Whether the gateway writes this field itself, or drops it.
pub(crate) fn is_replaced_or_dropped(name: &str) -> bool {
    match name {
        "host" | "expect" | "content-length" | "x-real-ip" | "x-forwarded-for"
        | "x-forwarded-host" | "x-forwarded-proto" | "forwarded" => true,
        // Trailers are filtered, so their announcement is dropped. An upgrade to HTTP/2 is never forwarded.
        "trailer" | "http2-settings" => true,
        // CGI scripts see `Proxy` as `HTTP_PROXY`, and would send their own requests there ("httpoxy").
        "proxy" | "proxy-authorization" => true,
        _ => HOP_BY_HOP.contains(&name),
    }
}

/// Whether some services let this field override the path, method, host or client of the request.
pub(crate) fn is_override(name: &str) -> bool {
    matches!(
        name,
        "x-original-url"
            | "x-original-uri"
            | "x-original-method"
            | "x-original-host"
            | "x-original-forwarded-for"
            | "x-rewrite-url"
            | "x-http-method-override"
            | "x-http-method"
            | "x-method-override"
            | "x-forwarded-prefix"
            | "x-forwarded-path"
            | "x-forwarded-uri"
            | "x-forwarded-method"
            | "x-forwarded-scheme"
            | "x-forwarded-server"
            | "x-forwarded-client-ip"
            | "x-envoy-original-path"
            | "x-envoy-original-method"
            | "x-envoy-external-address"
            | "x-host"
            | "x-client-ip"
            | "x-cluster-client-ip"
            | "x-originating-ip"
            | "x-remote-ip"
            | "x-remote-addr"
            | "x-appengine-user-ip"
            | "client-ip"
            | "true-client-ip"
            | "cf-connecting-ip"
            | "cf-connecting-ipv6"
            | "fastly-client-ip"
    )
}

const HOP_BY_HOP: &[&str] =
    &["connection", "proxy-connection", "keep-alive", "te", "transfer-encoding", "upgrade"];

/// The tokens that a request's `Connection` can contain.
const CONNECTION_TOKENS: &[&str] = &[
    "close",
    "keep-alive",
    "upgrade",
    "te",
    "http2-settings",
    "trailer",
    "transfer-encoding",
    "proxy-connection",
];

/// The message needs these fields, even if a service names them in `Connection` by mistake.
const NEVER_STRIPPED: &[&str] =
    &["authorization", "content-length", "content-type", "cookie", "host"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_goes_with_it() {
        let mut headers = HeaderMap::new();
        headers.append(CONNECTION, "close, X-One".parse().unwrap());
        headers.append(CONNECTION, "x-two,,".parse().unwrap());
        for name in ["x-one", "x-two", "x-three", "keep-alive", "te"] {
            headers.insert(name, "1".parse().unwrap());
        }
        strip_hop_fields(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-three"]);
    }

    #[test]
    fn what_a_message_needs_goes_with_no_connection() {
        let mut headers = HeaderMap::new();
        headers.append(CONNECTION, "Content-Type, content-length, x-one".parse().unwrap());
        for name in ["content-type", "content-length", "x-one"] {
            headers.insert(name, "1".parse().unwrap());
        }
        strip_hop_fields(&mut headers);
        assert_eq!(headers.len(), 2);
        assert!(!headers.contains_key("x-one"));
    }

    #[test]
    fn a_token_is_found_in_any_case_in_any_of_the_fields() {
        let mut headers = HeaderMap::new();
        assert!(!has_token(&headers, CONNECTION, "close"));
        headers.append(CONNECTION, "keep-alive".parse().unwrap());
        headers.append(CONNECTION, " x , Close".parse().unwrap());
        assert!(has_token(&headers, CONNECTION, "close"));
        assert!(!has_token(&headers, CONNECTION, "clos"));
    }

    #[test]
    fn what_is_written_here_is_not_passed_on() {
        for name in [
            "host",
            "content-length",
            "transfer-encoding",
            "te",
            "upgrade",
            "connection",
            "keep-alive",
            "proxy-connection",
            "trailer",
            "http2-settings",
            "proxy",
            "proxy-authorization",
            "forwarded",
            "x-forwarded-for",
            "x-real-ip",
            "expect",
        ] {
            assert!(is_replaced_or_dropped(name), "{name}");
        }
        for name in ["x-api-key", "authorization", "cookie", "te-x", "content-type"] {
            assert!(!is_replaced_or_dropped(name) && !is_override(name), "{name}");
        }
        for name in ["x-original-url", "x-rewrite-url", "x-http-method-override", "true-client-ip"]
        {
            assert!(is_override(name), "{name}");
        }
    }

    #[test]
    fn attack_08_a_client_cannot_have_fields_dropped() {
        for (value, is_fit) in [
            ("close", true),
            ("Keep-Alive, Upgrade, HTTP2-Settings", true),
            ("TE,,", true),
            ("x-api-key", false),
            ("close, X-Api-Key", false),
            ("authorization", false),
            ("cookie", false),
            ("host", false),
            ("x-anything", false),
            ("\u{e4}", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(CONNECTION, "close".parse().unwrap());
            headers.append(CONNECTION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            assert_eq!(check_connection(&headers).is_ok(), is_fit, "{value}");
        }
    }
}
