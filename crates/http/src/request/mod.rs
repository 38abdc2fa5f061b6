//! The reader of HTTP requests: their attributes for policies, and the requests that are refused.
//!
//! The gateway, the forward-auth and the layer all read requests with it. Parts that a service might read
//! in another way are normalized first, or refused as a [`RequestFault`].

mod cookie;
mod credentials;
mod escape;
mod fault;
mod field;
mod host;
mod method;
mod path;
mod query;

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::HeaderMap;
use tidegate_limiter::config::RequestRules;

pub use cookie::{cookie_values, only_cookie};
pub use credentials::{bearer, only_bearer};
pub use fault::RequestFault;
pub use field::{content_length, is_same_variable, only_field, refuse_other_spelling};
pub use host::RequestHost;
pub use method::read_method;
pub use path::RequestPath;
pub use query::{only_parameter, query_value, query_values};

/// The attributes of an HTTP request, by the names that policies use.
///
/// | attribute | value |
/// |---|---|
/// | `ip` | the client's address |
/// | `method` | as it is, in upper case |
/// | `scheme` | in lower case |
/// | `host` | in lower case, without a port |
/// | `path` | in normal form, without the query |
/// | `query:name` | that parameter, decoded |
/// | `header:name` | that field, without spaces around it |
/// | `cookie:name` | that cookie, decoded |
/// | `api_key` | the token of `Authorization: Bearer`, else `X-API-Key` |
///
/// A service behind Tidegate may read the request in another way, so [`attributes`](Self::attributes)
/// refuses what can be read in two ways, unless the [`rules`](Self::rules) allow it.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::{Cost, Plan, config::PolicySource};
/// use tidegate_http::HttpRequest;
///
/// let text = "policies: [{ name: search, match: { path: /search }, key: [ip], limits: [5/s] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// let headers = HeaderMap::new();
/// let request = HttpRequest {
///     method: Some(b"GET"),
///     scheme: None,
///     host: Some(b"example.com"),
///     target: Some(b"/search?q=tides"),
///     client: "203.0.113.9".parse().ok(),
///     headers: &headers,
///     rules: plan.settings().requests(),
/// };
/// let charges = plan.charges(&request.attributes(plan.attributes())?, Cost::ONE);
/// assert_eq!(charges.charges().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'r> {
    /// The method.
    pub method: Option<&'r [u8]>,
    /// `http` or `https`.
    pub scheme: Option<&'r [u8]>,
    /// The host, with or without a port.
    pub host: Option<&'r [u8]>,
    /// The path, and the query if there is one.
    pub target: Option<&'r [u8]>,
    /// The client's address; see [`ClientIp`](crate::ClientIp).
    pub client: Option<IpAddr>,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// The rules for reading it.
    pub rules: RequestRules,
}

/// The name and the value of an attribute.
type BorrowedAttribute<'n, 'r> = (&'n str, Cow<'r, [u8]>);

impl<'r> HttpRequest<'r> {
    /// The attributes that a plan uses and the request has; the error is the first that can be read in two
    /// ways.
    pub fn attributes<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Vec<BorrowedAttribute<'n, 'r>>, RequestFault> {
        let found = names.filter_map(|name| {
            let value = self.only_attribute(name).transpose()?;
            Some(value.map(|value| (name, value)))
        });
        found.collect()
    }

    /// One attribute; an error if it can be read in two ways.
    pub fn only_attribute(&self, name: &str) -> Result<Option<Cow<'r, [u8]>>, RequestFault> {
        let (headers, rules) = (self.headers, &self.rules);
        match name {
            "ip" => Ok(self.ip()),
            "method" => self.method.map(|it| read_method(it).map(Cow::Borrowed)).transpose(),
            "scheme" => Ok(self.lower_scheme()),
            "host" => Ok(self.host.map(RequestHost::read).transpose()?.map(RequestHost::into_name)),
            "path" => {
                let path = self.target.map(|target| RequestPath::read(split(target).0, rules));
                Ok(path.transpose()?.map(RequestPath::into_counted))
            }
            "api_key" => Ok(credentials::api_key(headers, rules)?.map(Cow::Borrowed)),
            _ => match name.split_once(':') {
                Some(("query", name)) => only_parameter(self.query(), name, rules),
                Some(("cookie", name)) => only_cookie(headers, name, rules),
                Some(("header", name)) => only_text(headers, name, rules),
                _ => Ok(None),
            },
        }
    }

    /// One attribute by its first value, in any spelling, for callers that refuse nothing.
    pub fn attribute(&self, name: &str) -> Option<Cow<'r, [u8]>> {
        if let Ok(value) = self.only_attribute(name) {
            return value;
        }
        match name {
            "method" => self.method.map(Cow::Borrowed),
            "host" => self.host.map(Cow::Borrowed),
            "path" => self.target.map(|target| Cow::Borrowed(split(target).0)),
            "api_key" => {
                let tokens = field::field_values(self.headers, "authorization");
                let mut tokens = tokens.filter_map(|it| bearer(it).ok().flatten());
                let key = || field::field_values(self.headers, "x-api-key").next();
                tokens.next().or_else(key).map(Cow::Borrowed)
            }
            _ => match name.split_once(':')? {
                ("query", name) => query_value(self.query(), name),
                ("cookie", name) => cookie_values(self.headers, name).next().map(Cow::Borrowed),
                ("header", name) => {
                    field::field_values(self.headers, name).next().map(Cow::Borrowed)
                }
                _ => None,
            },
        }
    }

    fn ip(&self) -> Option<Cow<'r, [u8]>> {
        self.client.map(|ip| Cow::Owned(ip.to_string().into_bytes()))
    }

    fn lower_scheme(&self) -> Option<Cow<'r, [u8]>> {
        self.scheme.map(|scheme| match scheme.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(scheme.to_ascii_lowercase()),
            false => Cow::Borrowed(scheme),
        })
    }

    fn query(&self) -> &'r [u8] {
        self.target.map(|target| split(target).1).unwrap_or_default()
    }
}

/// The single value of a field, in one spelling.
pub fn only_text<'r>(
    headers: &'r HeaderMap,
    name: &str,
    rules: &RequestRules,
) -> Result<Option<Cow<'r, [u8]>>, RequestFault> {
    if name.eq_ignore_ascii_case("authorization") {
        return credentials::authorization(headers, rules);
    }
    if name.eq_ignore_ascii_case("cookie") {
        return Ok(all_cookies(headers));
    }
    Ok(only_field(headers, name, rules)?.map(Cow::Borrowed))
}

/// All cookies of a request in one field: HTTP/2 can send them in several.
pub fn all_cookies(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let mut fields = field::field_values(headers, "cookie");
    let (first, second) = (fields.next()?, fields.next());
    let Some(second) = second else { return Some(Cow::Borrowed(first)) };
    let mut joined = first.to_vec();
    for field in std::iter::once(second).chain(fields) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(field);
    }
    Some(Cow::Owned(joined))
}

/// The path and the query of a target. A fragment belongs to neither.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = target.splitn(2, |byte| *byte == b'#');
    let mut parts = parts.next().unwrap_or_default().splitn(2, |byte| *byte == b'?');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

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
            rules: RequestRules::default(),
        }
    }

    #[test]
    fn a_target_is_a_path_and_a_query() {
        let none = HeaderMap::new();
        for (target, path, page) in [
            ("/a/b?page=2", "/a/b", Some("2")),
            ("/a?b?page=1&page=2", "/a", Some("2")),
            ("/a#?page=2", "/a", None),
            ("", "/", None),
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
        for (credentials, key) in [("Bearer t1", "t1"), ("bearer t2 ", "t2"), ("Basic t3", "k1")] {
            let fields = headers(&[("authorization", credentials), ("x-api-key", "k1")]);
            assert_eq!(of("/", &fields).attribute("api_key").unwrap().as_ref(), key.as_bytes());
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let bearer = ("authorization", "Bearer k1");
        for (name, target, fields) in [
            ("header:X-User", "/", &[("x-user", "1"), ("x-user", "2")][..]),
            ("query:user", "/?user=1&%75ser=2", &[]),
            ("query:user", "/?user&user=2", &[]),
            ("cookie:sid", "/", &[("cookie", "sid=1; sid=2")]),
            ("cookie:sid", "/", &[("cookie", "sid=1"), ("cookie", "sid=2")]),
            ("api_key", "/", &[bearer, ("x-api-key", "k2")]),
            ("api_key", "/", &[bearer, ("x_api_key", "k1")]),
            ("header:x-user", "/", &[("x-user", "1"), ("x-user", "1")]),
            ("query:user", "/?user=1&user=1", &[]),
            ("path", "/a%2Fb", &[]),
            ("path", "/a;b", &[]),
        ] {
            let fields = headers(fields);
            let request = of(target, &fields);
            let refused = request.attributes([name].into_iter()).unwrap_err();
            assert!(refused.attribute().unwrap().eq_ignore_ascii_case(name) || name == "api_key");
            // No request is refused for attributes that no policy uses.
            assert_eq!(request.attributes(["method"].into_iter()).unwrap().len(), 1, "{name}");
        }
        let fields = headers(&[bearer, ("x-api-key", "k1")]);
        let found = of("/", &fields).attributes(["api_key"].into_iter()).unwrap();
        assert_eq!(found.len(), 1, "one key in two places is one key");
    }
}
