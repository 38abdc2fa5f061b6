//! An HTTP request, as policies see it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{HeaderMap, HeaderValue};

use crate::{Ambiguous, cookie_values, host_name, query_values};

/// What is known of an HTTP request, by the names that policies use.
///
/// | attribute | value |
/// |---|---|
/// | `ip` | the client's address |
/// | `method`, `scheme` | as they are |
/// | `host` | in lower case, without a port |
/// | `path` | without the query |
/// | `query:name` | the first such parameter, decoded |
/// | `header:name` | the first such field |
/// | `cookie:name` | the first such cookie |
/// | `api_key` | the token of `Authorization: Bearer`, else `X-API-Key` |
///
/// Whoever reads the request behind a proxy may go by another value than the first, so
/// [`attributes`](Self::attributes) refuses those that differ.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Cost, Plan, config::Source};
/// use tidegate_http::HttpRequest;
///
/// let text = "policies: [{ name: search, match: { path: /search }, key: [ip], limits: [5/s] }]";
/// let plan = Plan::compile(&Source::new("limits.yaml", text)?)?;
/// let headers = HeaderMap::new();
/// let request = HttpRequest {
///     method: Some(b"GET"),
///     scheme: None,
///     host: Some(b"example.com"),
///     target: Some(b"/search?q=tides"),
///     client: "203.0.113.9".parse().ok(),
///     headers: &headers,
/// };
/// let owed = plan.charges(&request.attributes(plan.attributes())?, Cost::ONE);
/// assert_eq!(owed.charges().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'r> {
    /// The method.
    pub method: Option<&'r [u8]>,
    /// `http` or `https`.
    pub scheme: Option<&'r [u8]>,
    /// Whom it is for, with or without a port.
    pub host: Option<&'r [u8]>,
    /// The path, and the query if there is one.
    pub target: Option<&'r [u8]>,
    /// Whose it is; see [`ClientIp`](crate::ClientIp).
    pub client: Option<IpAddr>,
    /// The header fields.
    pub headers: &'r HeaderMap,
}

/// A name, and the value that a request has of it.
type Attribute<'n, 'r> = (&'n str, Cow<'r, [u8]>);

impl<'r> HttpRequest<'r> {
    /// Those that a plan asks for, and that the request has; or the first of them that it has twice,
    /// with values that differ. We would count by the one, and a service might go by the other.
    pub fn attributes<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Vec<Attribute<'n, 'r>>, Ambiguous> {
        let found = names.filter_map(|name| {
            let value = self.only(name).transpose()?;
            Some(value.map(|value| (name, value)))
        });
        found.collect()
    }

    /// One of them, if it has one value.
    pub fn only(&self, name: &str) -> Result<Option<Cow<'r, [u8]>>, Ambiguous> {
        let Values { first, differ } = self.values(name);
        if differ { Err(Ambiguous::new(name)) } else { Ok(first) }
    }

    /// One of them, by its first value: for whoever reads the request by the first as well.
    pub fn attribute(&self, name: &str) -> Option<Cow<'r, [u8]>> {
        self.values(name).first
    }

    fn values(&self, name: &str) -> Values<'r> {
        match name {
            "ip" => Values::one(self.client.map(|ip| Cow::Owned(ip.to_string().into_bytes()))),
            "method" => Values::one(self.method.map(Cow::Borrowed)),
            "scheme" => Values::one(self.scheme.map(Cow::Borrowed)),
            "host" => Values::one(self.host.map(host_name)),
            "path" => Values::one(self.target.map(|target| Cow::Borrowed(split(target).0))),
            "api_key" => Values::of(self.api_keys().map(Cow::Borrowed)),
            _ => match name.split_once(':') {
                Some(("query", name)) => Values::of(query_values(self.query(), name)),
                Some(("header", name)) => Values::of(self.fields(name).map(Cow::Borrowed)),
                Some(("cookie", name)) => {
                    Values::of(cookie_values(self.headers, name).map(Cow::Borrowed))
                }
                _ => Values::one(None),
            },
        }
    }

    fn query(&self) -> &'r [u8] {
        self.target.map(|target| split(target).1).unwrap_or_default()
    }

    fn fields(&self, name: &str) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    /// The tokens of `Authorization: Bearer`.
    pub fn bearers(&self) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        self.fields("authorization").filter_map(bearer)
    }

    fn api_keys(&self) -> impl Iterator<Item = &'r [u8]> {
        self.bearers().chain(self.fields("x-api-key"))
    }
}

/// The values of an attribute, as far as anybody wants to know them.
struct Values<'r> {
    first: Option<Cow<'r, [u8]>>,
    differ: bool,
}

impl<'r> Values<'r> {
    const fn one(value: Option<Cow<'r, [u8]>>) -> Self {
        Self { first: value, differ: false }
    }

    fn of(mut values: impl Iterator<Item = Cow<'r, [u8]>>) -> Self {
        let first = values.next();
        let differ = values.any(|value| Some(&value) != first.as_ref());
        Self { first, differ }
    }
}

/// The token of credentials that are one.
fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then(|| token.trim_ascii())
}

/// The path and the query of a target. A fragment is of neither.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = target.splitn(2, |byte| *byte == b'#');
    let mut parts = parts.next().unwrap_or_default().splitn(2, |byte| *byte == b'?');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

const BEARER: &[u8] = b"bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn of<'r>(target: &'r str, headers: &'r HeaderMap) -> HttpRequest<'r> {
        HttpRequest {
            method: Some(b"GET"),
            scheme: None,
            host: None,
            target: Some(target.as_bytes()),
            client: None,
            headers,
        }
    }

    #[test]
    fn a_target_is_a_path_and_a_query() {
        let none = HeaderMap::new();
        for (target, path, page) in [
            ("/a/b?page=2", "/a/b", Some("2")),
            ("/a?b?page=1&page=2", "/a", Some("2")),
            ("/a#?page=2", "/a", None),
            ("", "", None),
        ] {
            let request = of(target, &none);
            assert_eq!(request.attribute("path").as_deref(), Some(path.as_bytes()), "{target}");
            let expected = page.map(str::as_bytes);
            assert_eq!(request.attribute("query:page").as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn fields_cookies_and_keys_are_found() {
        let fields = headers(&[
            ("cookie", "a=1; session = s1 ;b"),
            ("cookie", "late=x=y"),
            ("x-plan", "pro"),
            ("x-api-key", "k1"),
        ]);
        let request = of("/", &fields);
        let get = |name: &str| {
            request.attribute(name).map(|value| String::from_utf8(value.into_owned()).unwrap())
        };
        assert_eq!(get("cookie:session").as_deref(), Some("s1"));
        assert_eq!(get("cookie:late").as_deref(), Some("x=y"));
        assert_eq!((get("cookie:b"), get("cookie:")), (None, None));
        assert_eq!(get("header:X-Plan").as_deref(), Some("pro"));
        assert_eq!(get("api_key").as_deref(), Some("k1"));
        for unknown in ["user", "header:", "header:no such name", "other:x", "query:", ""] {
            assert_eq!(get(unknown), None, "{unknown}");
        }
        for (credentials, key) in [("Bearer t1", "t1"), ("bearer  t2 ", "t2"), ("Basic t3", "k1")] {
            let fields = headers(&[("authorization", credentials), ("x-api-key", "k1")]);
            assert_eq!(of("/", &fields).attribute("api_key").unwrap().as_ref(), key.as_bytes());
        }
    }

    #[test]
    fn values_that_differ_are_refused() {
        let bearer = ("authorization", "Bearer k1");
        for (name, target, fields) in [
            ("header:X-User", "/", &[("x-user", "1"), ("x-user", "2")][..]),
            ("query:user", "/?user=1&%75ser=2", &[]),
            ("query:user", "/?user&user=2", &[]),
            ("cookie:sid", "/", &[("cookie", "sid=1; sid=2")]),
            ("cookie:sid", "/", &[("cookie", "sid=1"), ("cookie", "sid=2")]),
            ("api_key", "/", &[bearer, ("x-api-key", "k2")]),
            ("api_key", "/", &[bearer, ("authorization", "bearer k2")]),
            ("api_key", "/", &[("x-api-key", "k1"), ("x-api-key", "k2")]),
        ] {
            let fields = headers(fields);
            let request = of(target, &fields);
            let refused = request.attributes([name].into_iter()).unwrap_err();
            assert_eq!(refused.attribute(), name);
            // Nobody is refused for what no policy asks for.
            assert_eq!(request.attributes(["path"].into_iter()).unwrap().len(), 1, "{name}");
        }
        let fields = headers(&[bearer, ("x-api-key", "k1"), ("x-user", "1"), ("x-user", "1")]);
        let names = ["api_key", "header:x-user", "query:user"];
        let found = of("/?user=1&user=1", &fields).attributes(names.into_iter()).unwrap();
        assert_eq!(found.len(), 3, "the same twice is no contradiction");
    }
}
