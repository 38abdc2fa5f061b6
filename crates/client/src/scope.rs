//! The default scope of a request: the server that it goes to.

use http::HeaderMap;
use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};

/// One name for each server, however it is written: the host in lower case, and the port, which defaults
/// to the scheme's. User information is left out. If the URI is only a path, the `Host` field names the
/// server, and the port is known only if it is in that field.
pub(crate) fn host_and_port(head: &Parts) -> String {
    let by_field = || host_field(&head.headers);
    let Some(authority) = head.uri.authority().cloned().or_else(by_field) else {
        return String::new();
    };
    let host = authority.host().to_ascii_lowercase();
    match authority.port_u16().or_else(|| default_port(head.uri.scheme()?)) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

fn host_field(headers: &HeaderMap) -> Option<Authority> {
    Authority::try_from(headers.get(HOST)?.as_bytes()).ok()
}

fn default_port(scheme: &Scheme) -> Option<u16> {
    match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn scope(uri: &str, host: Option<&str>) -> String {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        host_and_port(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_server_has_one_name() {
        for (uri, name) in [
            ("http://a.example/", "a.example:80"),
            ("HTTP://A.Example:80/x?y", "a.example:80"),
            ("https://a.example", "a.example:443"),
            ("http://a.example:/", "a.example:80"),
            ("https://me:secret@a.example:8443/", "a.example:8443"),
            ("http://[::1]/", "[::1]:80"),
            ("ws://a.example/", "a.example"),
            ("a.example:443", "a.example:443"),
        ] {
            assert_eq!(scope(uri, None), name, "{uri}");
            // The URI takes precedence over the field.
            assert_eq!(scope(uri, Some("b.example")), name, "{uri}");
        }
    }

    #[test]
    fn a_path_goes_to_its_host() {
        assert_eq!(scope("/", Some("A.example:8080")), "a.example:8080");
        assert_eq!(scope("/", Some("a.example")), "a.example");
        for nothing in [None, Some(""), Some("no host"), Some("a/b")] {
            assert_eq!(scope("/", nothing), "", "{nothing:?}");
        }
    }
}
