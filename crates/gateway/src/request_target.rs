//! The host, path and query of a request in one normal form, or the fault that it is refused for.

use std::borrow::Cow;

use http::request::Parts;
use http::uri::PathAndQuery;
use tidegate::config::RequestRules;
use tidegate_http::{
    RequestFault, RequestHost, RequestPath, content_length, only_bearer, read_method,
};

use crate::forward::hop;

/// The target of a request, as it is counted and as it is forwarded.
#[derive(Debug)]
pub(crate) struct RequestTarget<'r> {
    pub(crate) host: RequestHost<'r>,
    /// In normal form.
    pub(crate) path: Cow<'r, str>,
    /// The target that the service gets: the path with its trailing slash, if any, and the query.
    pub(crate) path_and_query: Cow<'r, str>,
    pub(crate) query: Option<&'r str>,
    /// The request's `Content-Length`.
    pub(crate) length: Option<u64>,
}

impl<'r> RequestTarget<'r> {
    /// Refuses a request that could be read in two ways.
    pub(crate) fn read(parts: &'r Parts, rules: &RequestRules) -> Result<Self, RequestFault> {
        let method = parts.method.as_str();
        read_method(method.as_bytes())?;
        // `CONNECT` opens tunnels, and the others echo the fields that a proxy has added.
        if matches!(method, "CONNECT" | "TRACE" | "TRACK") {
            return Err(RequestFault::Unserved(method.to_owned()));
        }
        let host = RequestHost::of(&parts.uri, &parts.headers)?.ok_or(RequestFault::NoHost)?;
        hop::check_connection(&parts.headers)?;
        if rules.refuses_other_schemes() {
            only_bearer(&parts.headers, rules)?;
        }
        let (raw, query) = (parts.uri.path(), parts.uri.query());
        if raw.is_empty() {
            return Err(RequestFault::Path("is empty: expected at least a slash"));
        }
        if !query.unwrap_or_default().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(RequestFault::Query("has bytes that must be escaped"));
        }
        let read = RequestPath::read(raw.as_bytes(), rules)?;
        let target = target(&read, parts, query)?;
        let path = text(read.into_counted())?;
        Ok(Self {
            host,
            path,
            path_and_query: target,
            query,
            length: content_length(&parts.headers)?,
        })
    }
}

/// A path in normal form is ASCII.
fn text(path: Cow<'_, [u8]>) -> Result<Cow<'_, str>, RequestFault> {
    let text = match path {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    text.ok_or(RequestFault::Path("is not valid UTF-8"))
}

/// The target to forward. Borrowed if the client's spelling is already the normal form.
fn target<'r>(
    read: &RequestPath<'r>,
    parts: &'r Parts,
    query: Option<&str>,
) -> Result<Cow<'r, str>, RequestFault> {
    let (path, raw) = (read.forwarded(), parts.uri.path().as_bytes());
    let is_same = raw == path || (path != b"/" && raw.strip_suffix(b"/") == Some(path));
    let whole = parts.uri.path_and_query().map(PathAndQuery::as_str);
    // `http://host?x` has `?x` here, which is not a target.
    if let Some(whole) = whole.filter(|whole| is_same && whole.starts_with('/')) {
        return Ok(Cow::Borrowed(whole));
    }
    let mut target = text(Cow::Borrowed(path))?.into_owned();
    if read.ends_in_slash() && path != b"/" {
        target.push('/');
    }
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    Ok(Cow::Owned(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use http::header::HOST;

    fn parts(target: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn services_are_asked_for_the_path_that_is_counted() {
        for (target, path, expected) in [
            ("/a", "/a", "/a"),
            ("/a/", "/a", "/a/"),
            ("/", "/", "/"),
            ("//", "/", "/"),
            ("/a?x=1", "/a", "/a?x=1"),
            ("/a/?x=1", "/a", "/a/?x=1"),
            ("//a//b/../%63?x=%2F..", "/a/c", "/a/c?x=%2F.."),
            ("/%e2%82%ac/", "/%E2%82%AC", "/%E2%82%AC/"),
            ("/v1/mail%3Asend?x", "/v1/mail:send", "/v1/mail:send?x"),
            ("/%40me/", "/@me", "/@me/"),
            ("/..", "/", "/"),
            ("http://host/a/./b", "/a/b", "/a/b"),
            ("http://host", "/", "/"),
            ("http://host?x=1", "/", "/?x=1"),
        ] {
            let hosts = if target.starts_with('/') { &["host"][..] } else { &[] };
            let parts = parts(target, hosts);
            let read = RequestTarget::read(&parts, &RequestRules::default()).unwrap();
            assert_eq!((&*read.path, &*read.path_and_query), (path, expected), "{target}");
        }
    }

    #[test]
    fn what_others_may_read_otherwise_is_refused() {
        for target in ["/a%2fb", "/a%5Cb", "/a%00", "/a%0a", "/a%7f", "/a%", "/a%2", "/a%zz", "*"] {
            let parts = parts(target, &["h"]);
            assert!(RequestTarget::read(&parts, &RequestRules::default()).is_err(), "{target}");
        }
        let lenient = RequestRules::default().keep_encoded_slashes();
        assert_eq!(
            &*RequestTarget::read(&parts("/a%2fb", &["h"]), &lenient).unwrap().path_and_query,
            "/a%2Fb"
        );
        assert!(RequestTarget::read(&parts("/a%00", &["h"]), &lenient).is_err());
    }

    #[test]
    fn a_request_has_exactly_one_host() {
        let host = |target: &str, hosts: &[&str]| {
            let parts = parts(target, hosts);
            let read = RequestTarget::read(&parts, &RequestRules::default());
            read.map(|read| read.host.name().to_owned())
        };
        for (written, expected) in [
            ("Example.ORG", "example.org"),
            ("example.org.:8000", "example.org"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("10.0.0.1:80", "10.0.0.1"),
        ] {
            assert_eq!(host("/", &[written]).unwrap(), expected);
        }
        assert_eq!(host("http://a/", &["A"]).unwrap(), "a");
        assert_eq!(host("/", &[]), Err(RequestFault::NoHost));
        for hosts in [&["a", "a"][..], &["a b"], &["a,b"], &["user@a"], &["a/b"]] {
            assert!(host("/", hosts).is_err(), "{hosts:?}");
        }
        assert!(host("http://a/", &["b"]).is_err());
        assert!(host("http://user@a/", &[]).is_err());
    }
}
