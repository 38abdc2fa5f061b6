//! Detects requests that a web page sends from a browser without its user's intent.
//!
//! A browser states the origin of a request in `Sec-Fetch-Site` and `Origin`, and the name that it has
//! resolved in `Host`, which exposes an attacker's DNS name for this machine. Pages cannot change these
//! headers. Programs do not send the first two.

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};

/// The host that a request is for. In HTTP/2 it is part of the URI.
pub(crate) fn host<'h>(uri: &'h Uri, headers: &'h HeaderMap) -> Option<&'h str> {
    // A host that is not text becomes an empty one, which is never trusted.
    let field = || headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    uri.authority().map(Authority::as_str).or_else(field)
}

/// Whether a page of another site has sent this request.
pub(crate) fn is_cross_site(headers: &HeaderMap, host: Option<&str>) -> bool {
    let is_ours = |site: &HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
    !headers.get_all("sec-fetch-site").iter().all(is_ours)
        || !headers.get_all(ORIGIN).iter().all(|origin| is_origin_of(origin, host))
}

/// Whether a page from `origin` is on the host that the request is for.
fn is_origin_of(origin: &HeaderValue, host: Option<&str>) -> bool {
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    origin.zip(host).is_some_and(|((_, name), host)| name.eq_ignore_ascii_case(host))
}

/// Whether this host is a name of the machine itself. A name that an attacker's DNS resolves to this
/// machine is not: the browser sends that name.
pub(crate) fn is_loopback_host(host: &str) -> bool {
    let name = host_name(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback())
}

/// Whether an attacker's DNS cannot be the reason that this host leads here: true for the names of the
/// machine, for addresses, and for the names that the operator has listed.
pub(super) fn is_trusted_host(host: &str, listed: &[String]) -> bool {
    let name = host_name(host);
    is_loopback_host(host)
        || name.parse::<std::net::IpAddr>().is_ok()
        || listed.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

/// A fast check for the two names that nearly all clients use. Such a host is always trusted.
pub(super) fn is_plain_loopback(host: &[u8]) -> bool {
    let rest = host.strip_prefix(b"127.0.0.1").or_else(|| host.strip_prefix(b"localhost"));
    matches!(rest, Some([] | [b':', ..]))
}

/// The host without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_names_of_the_machine_are_of_the_machine() {
        for (host, expected) in [
            ("localhost:9090", true),
            ("127.0.0.1", true),
            ("127.8.8.8:1", true),
            ("[::1]:9090", true),
            ("attacker.example:9090", false),
            ("127.0.0.1.attacker.example", false),
            ("10.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_loopback_host(host), expected, "{host}");
        }
    }

    #[test]
    fn what_is_plainly_local_is_reliable_and_a_strange_name_is_not() {
        let listed = ["tidegate.internal".to_owned()];
        for host in ["localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:1"] {
            assert!(is_plain_loopback(host.as_bytes()) && is_trusted_host(host, &[]), "{host}");
        }
        for host in ["10.0.0.1:8080", "[2001:db8::1]:80", "Tidegate.Internal:8080"] {
            assert!(
                !is_plain_loopback(host.as_bytes()) && is_trusted_host(host, &listed),
                "{host}"
            );
        }
        for host in ["localhost.evil.example", "127.0.0.1.evil.example", "evil.example", "", "x"] {
            assert!(
                !is_plain_loopback(host.as_bytes()) && !is_trusted_host(host, &listed),
                "{host}"
            );
        }
    }

    #[test]
    fn a_page_of_another_site_is_told_from_our_own_and_from_programs() {
        let host = Some("localhost:8080");
        for ours in [
            &[][..],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            &[("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(!is_cross_site(&fields(ours), host), "{ours:?}");
        }
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "")],
            &[("origin", "https://evil.example")],
            &[("origin", "null")],
            &[("origin", "http://localhost")],
            &[("origin", "http://localhost:80801")],
        ] {
            assert!(is_cross_site(&fields(foreign), host), "{foreign:?}");
        }
        assert!(is_cross_site(&fields(&[("origin", "http://localhost:8080")]), None));
    }
}
