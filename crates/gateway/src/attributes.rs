//! What policies may ask of a request. Nothing is looked up that no policy asks for.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use tidegate::config::gateway::{Gateway, KeyPlace};
use tidegate::{Attributes, Plan};

use crate::asked::Asked;
use crate::jwt::Claims;
use crate::problem::Refusal;

/// The attributes that a plan asks for and that are not simply there.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Names of attributes, and where their values are.
    values: Vec<(String, Place)>,
}

#[derive(Debug)]
enum Place {
    Header(String),
    Query(String),
    Cookie(String),
    Claim(String),
}

impl Wanted {
    pub(crate) fn by(plan: &Plan, gateway: &Gateway) -> Self {
        let values = plan.attributes();
        let values = values.filter_map(|it| Some((it.to_owned(), Place::of(it, gateway)?)));
        Self { values: values.collect() }
    }

    /// Looks them up. One that is there twice is refused: we might count by the one, and the service
    /// go by the other.
    pub(crate) fn find(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        claims: Option<&Claims>,
    ) -> Result<Found, Refusal> {
        let mut found = Found::default();
        for (name, place) in &self.values {
            let mut values = Values::default();
            match place {
                Place::Header(field) => {
                    headers
                        .get_all(field)
                        .iter()
                        .for_each(|it| values.push(it.as_bytes().to_vec()));
                }
                Place::Query(part) => query_values(query, part, &mut values),
                Place::Cookie(cookie) => cookie_values(headers, cookie, &mut values),
                Place::Claim(claim) => {
                    claims.and_then(|it| it.get(claim)).into_iter().for_each(|it| values.push(it));
                }
            }
            if values.is_ambiguous {
                return Err(Refusal::bad(format!("{name} is there twice: expected it once")));
            }
            if let Some(value) = values.first {
                found.0.push((name.clone(), value));
            }
        }
        Ok(found)
    }
}

#[derive(Default)]
struct Values {
    first: Option<Vec<u8>>,
    is_ambiguous: bool,
}

impl Values {
    fn push(&mut self, value: Vec<u8>) {
        self.is_ambiguous |= self.first.is_some();
        self.first = Some(value);
    }
}

impl Place {
    fn of(attribute: &str, gateway: &Gateway) -> Option<Self> {
        if attribute == "api_key" {
            return match &gateway.api_key {
                KeyPlace::Header(name) => Some(Self::Header(name.clone())),
                KeyPlace::Query(name) => Some(Self::Query(name.clone())),
                KeyPlace::Cookie(name) => Some(Self::Cookie(name.clone())),
                _ => None,
            };
        }
        let (kind, name) = attribute.split_once(':')?;
        let name = name.to_owned();
        match kind {
            "header" => Some(Self::Header(name.to_ascii_lowercase())),
            "query" => Some(Self::Query(name)),
            "cookie" => Some(Self::Cookie(name)),
            "jwt" => Some(Self::Claim(name)),
            _ => None,
        }
    }
}

/// The values that were found, by the names of attributes.
#[derive(Debug, Default)]
pub(crate) struct Found(Vec<(String, Vec<u8>)>);

impl Found {
    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.0.iter()
    }
}

/// Everything that is known of a request.
#[derive(Debug)]
pub(crate) struct Known<'r> {
    pub(crate) method: &'r str,
    pub(crate) asked: &'r Asked<'r>,
    pub(crate) client: Option<&'r str>,
    pub(crate) route: Option<&'r str>,
    pub(crate) found: &'r Found,
}

impl Attributes for Known<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        match name {
            "ip" => self.client.map(str::as_bytes),
            "method" => Some(self.method.as_bytes()),
            "host" => self.asked.host.as_deref().map(str::as_bytes),
            "path" => Some(self.asked.path.as_bytes()),
            "route" => self.route.map(str::as_bytes),
            name => {
                let found = self.found.iter().find(|(other, _)| other == name);
                found.map(|(_, value)| &value[..])
            }
        }
    }
}

/// What a route is chosen by.
pub(crate) struct Routed<'r> {
    pub(crate) method: &'r str,
    pub(crate) asked: &'r Asked<'r>,
    pub(crate) headers: &'r HeaderMap,
}

impl Attributes for Routed<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        match name {
            "method" => Some(self.method.as_bytes()),
            "host" => self.asked.host.as_deref().map(str::as_bytes),
            "path" => Some(self.asked.path.as_bytes()),
            name => self.headers.get(name.strip_prefix("header:")?).map(HeaderValue::as_bytes),
        }
    }
}

fn query_values(query: Option<&str>, name: &str, values: &mut Values) {
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decoded(key) == name.as_bytes() {
            values.push(decoded(value));
        }
    }
}

/// As forms have it: a plus is a space, and what is no escape is itself.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let escaped = match (byte, tail) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high).zip(digit(low)).map(|(high, low)| (high << 4 | low, after))
            }
            _ => None,
        };
        match escaped {
            Some((value, after)) => {
                out.push(u8::try_from(value).unwrap_or_default());
                rest = after;
            }
            None => out.push(if *byte == b'+' { b' ' } else { *byte }),
        }
    }
    out
}

fn cookie_values(headers: &HeaderMap, name: &str, values: &mut Values) {
    for list in headers.get_all(COOKIE) {
        for pair in list.as_bytes().split(|byte| *byte == b';') {
            let pair = pair.trim_ascii();
            if let Some(value) =
                pair.strip_prefix(name.as_bytes()).and_then(|it| it.strip_prefix(b"="))
            {
                values.push(value.to_vec());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config::Source;

    fn find(key: &str, fields: &[(&str, &str)], query: &str) -> Result<Option<String>, Refusal> {
        let text = format!(
            "gateway: {{ upstreams: {{ a: http://h }}, jwt: {{ keys: k, algorithms: HS256 }} }}\n\
             policies: [{{ name: p, key: ['{key}'], limits: [1/s] }}]"
        );
        let plan = Plan::compile(&Source::new("test", text).unwrap()).unwrap();
        let wanted = Wanted::by(&plan, plan.gateway().unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let found = wanted.find(&headers, Some(query), None)?;
        Ok(found.0.first().map(|(_, value)| String::from_utf8(value.clone()).unwrap()))
    }

    #[test]
    fn values_are_found_where_policies_say() {
        for (key, fields, query, expected) in [
            ("header:X-User", &[("x-user", "1")][..], "", Some("1")),
            ("api_key", &[("x-api-key", "k")], "", Some("k")),
            ("query:user", &[], "a=b&user=a%20b+c&x", Some("a b c")),
            ("query:user", &[], "u%73er=1", Some("1")),
            ("query:user", &[], "user", Some("")),
            ("query:user", &[], "users=1", None),
            ("query:user", &[], "user=%zz%", Some("%zz%")),
            ("cookie:sid", &[("cookie", "a=b; sid=1=2;c=d")], "", Some("1=2")),
            ("cookie:sid", &[("cookie", "xsid=1; sid2=2")], "", None),
            ("user", &[("user", "1")], "user=1", None),
        ] {
            assert_eq!(find(key, fields, query).unwrap().as_deref(), expected, "{key} {query}");
        }
    }

    #[test]
    fn what_is_there_twice_is_refused() {
        assert!(find("header:x-user", &[("x-user", "1"), ("x-user", "2")], "").is_err());
        assert!(find("query:user", &[], "user=1&user=2").is_err());
        assert!(find("query:user", &[], "user=1&%75ser=1").is_err());
        assert!(find("cookie:sid", &[("cookie", "sid=1"), ("cookie", "sid=2")], "").is_err());
        assert!(find("api_key", &[("x-api-key", "a"), ("x-api-key", "b")], "").is_err());
    }
}
