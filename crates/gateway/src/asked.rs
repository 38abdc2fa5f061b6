//! What a request asks for, in one form, or why it is refused.

use std::borrow::Cow;

use http::Method;
use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use tidegate::path_in_normal_form;
use tidegate_http::host_name;

use crate::problem::Refusal;

/// The target of a request.
#[derive(Debug)]
pub(crate) struct Asked<'r> {
    /// As the client wrote it: a host, and perhaps a port.
    pub(crate) authority: Option<&'r str>,
    /// The host in lower case, without its port.
    pub(crate) host: Option<Cow<'r, str>>,
    /// In normal form.
    pub(crate) path: Cow<'r, str>,
    /// What a service is asked for: the path with the slash at its end, if it has one, and the
    /// query.
    pub(crate) target: Cow<'r, str>,
    pub(crate) query: Option<&'r str>,
}

impl<'r> Asked<'r> {
    pub(crate) fn read(parts: &'r Parts, keeps_slashes: bool) -> Result<Self, Refusal> {
        if parts.method == Method::CONNECT {
            return Err(Refusal::method("CONNECT makes a tunnel, which is not for this gateway"));
        }
        let authority = authority(parts)?;
        let (raw, query) = (parts.uri.path(), parts.uri.query());
        check_path(raw, keeps_slashes)?;
        if !query.unwrap_or_default().bytes().all(is_printable) {
            return Err(Refusal::bad("the query has bytes that are to be escaped"));
        }
        let path = text(path_in_normal_form(raw.as_bytes()));
        let path = path.ok_or_else(|| Refusal::bad("the path is no text"))?;
        let target =
            target(&path, raw, parts.uri.path_and_query().map(PathAndQuery::as_str), query);
        let host = authority.and_then(|it| text(host_name(it.as_bytes())));
        Ok(Self { authority, host, path, target, query })
    }
}

/// Where the request is meant to go. What HTTP/2 and absolute targets say comes first; a `Host`
/// beside it must say the same.
fn authority(parts: &Parts) -> Result<Option<&str>, Refusal> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = match hosts.next().map(|host| host.to_str()) {
        None => None,
        Some(Ok(host)) => Some(host),
        Some(Err(_)) => return Err(Refusal::bad("the host is no text")),
    };
    if hosts.next().is_some() {
        return Err(Refusal::bad("there are two hosts: expected one"));
    }
    let target = parts.uri.authority().map(http::uri::Authority::as_str);
    if let (Some(target), Some(host)) = (target, host)
        && !target.eq_ignore_ascii_case(host)
    {
        return Err(Refusal::bad("the target and the host differ: expected one host"));
    }
    let authority = target.or(host).filter(|it| !it.is_empty());
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    if !authority.unwrap_or_default().bytes().all(is_fit) {
        return Err(Refusal::bad("the host is none: expected a name or an address"));
    }
    Ok(authority)
}

fn text(bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// Refuses what a service may read as another path than we do.
fn check_path(path: &str, keeps_slashes: bool) -> Result<(), Refusal> {
    if !path.starts_with('/') {
        return Err(Refusal::bad("the target is no path: expected one that begins with a slash"));
    }
    let mut rest = path.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let value = match byte {
            b'%' => match tail {
                [high, low, after @ ..] => {
                    rest = after;
                    match (hex(*high), hex(*low)) {
                        (Some(high), Some(low)) => high << 4 | low,
                        _ => return Err(Refusal::bad(ESCAPE)),
                    }
                }
                _ => return Err(Refusal::bad(ESCAPE)),
            },
            b'/' => continue,
            byte if !is_printable(*byte) => {
                return Err(Refusal::bad("the path has bytes that are to be escaped"));
            }
            byte => *byte,
        };
        match value {
            b'/' | b'\\' if !keeps_slashes => {
                return Err(Refusal::bad("the path has a slash in disguise, or a backslash"));
            }
            0..=31 | 127 => return Err(Refusal::bad("the path has a control character")),
            _ => {}
        }
    }
    Ok(())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

const fn is_printable(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

/// Nothing is written anew where the client's spelling is the normal one.
fn target<'r>(
    path: &Cow<'r, str>,
    raw: &str,
    whole: Option<&'r str>,
    query: Option<&str>,
) -> Cow<'r, str> {
    let is_same = |path: &str| raw == path || raw.strip_suffix('/') == Some(path);
    if let (Cow::Borrowed(path), Some(whole)) = (path, whole)
        && is_same(path)
    {
        return Cow::Borrowed(whole);
    }
    let slash = if raw.ends_with('/') && &**path != "/" { "/" } else { "" };
    Cow::Owned(match query {
        Some(query) => format!("{path}{slash}?{query}"),
        None => format!("{path}{slash}"),
    })
}

const ESCAPE: &str = "the path has a % without two hexadecimal digits behind it";

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

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
            ("/..", "/", "/"),
            ("http://host/a/./b", "/a/b", "/a/b"),
            ("http://host", "/", "/"),
        ] {
            let parts = parts(target, &[]);
            let asked = Asked::read(&parts, false).unwrap();
            assert_eq!((&*asked.path, &*asked.target), (path, expected), "{target}");
        }
    }

    #[test]
    fn what_others_may_read_otherwise_is_refused() {
        for target in ["/a%2fb", "/a%5Cb", "/a%00", "/a%0a", "/a%7f", "/a%", "/a%2", "/a%zz", "*"] {
            assert!(Asked::read(&parts(target, &["h"]), false).is_err(), "{target}");
        }
        assert_eq!(&*Asked::read(&parts("/a%2fb", &[]), true).unwrap().target, "/a%2Fb");
        assert!(Asked::read(&parts("/a%00", &[]), true).is_err());
    }

    #[test]
    fn there_is_one_host() {
        let host = |target: &str, hosts: &[&str]| {
            let parts = parts(target, hosts);
            Asked::read(&parts, false).map(|asked| asked.host.map(Cow::into_owned))
        };
        for (written, expected) in [
            ("Example.ORG", "example.org"),
            ("example.org.:8000", "example.org"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("10.0.0.1:80", "10.0.0.1"),
        ] {
            assert_eq!(host("/", &[written]).unwrap().as_deref(), Some(expected));
        }
        assert_eq!(host("http://a/", &["A"]).unwrap().as_deref(), Some("a"));
        assert_eq!(host("/", &[]).unwrap(), None);
        for hosts in [&["a", "a"][..], &["a b"], &["a,b"], &["user@a"], &["a/b"]] {
            assert!(host("/", hosts).is_err(), "{hosts:?}");
        }
        assert!(host("http://a/", &["b"]).is_err());
        assert!(host("http://user@a/", &[]).is_err());
    }
}
