//! What policies may ask of a request. Nothing is looked up that no policy asks for.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};
use tidegate::config::RequestRules;
use tidegate::config::gateway::{ApiKeyLocation, GatewayPlan};
use tidegate::{Attributes, Plan};
use tidegate_http::{RequestFault, only_cookie, only_parameter, only_text};

use crate::jwt::JwtClaims;
use crate::request_target::RequestTarget;

/// The attributes that a plan asks for and that are not simply there.
#[derive(Debug, Default)]
pub(crate) struct AttributeLookup {
    /// Names of attributes, and where their values are.
    values: Vec<(String, AttributeLocation)>,
    rules: RequestRules,
}

#[derive(Debug)]
enum AttributeLocation {
    Header(String, RequestRules),
    Query(String),
    Cookie(String),
    Claim(String),
}

impl AttributeLookup {
    pub(crate) fn by(plan: &Plan, gateway: &GatewayPlan) -> Self {
        let values = plan.attributes();
        let values =
            values.filter_map(|it| Some((it.to_owned(), AttributeLocation::of(it, gateway)?)));
        Self { values: values.collect(), rules: gateway.requests }
    }

    /// Looks them up. One that can be read in two ways is refused: we might count by the one, and the
    /// service go by the other.
    pub(crate) fn find(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        claims: Option<&JwtClaims>,
    ) -> Result<AttributeValues, RequestFault> {
        let mut found = AttributeValues::default();
        for (name, place) in &self.values {
            let value = match place {
                AttributeLocation::Header(field, rules) => only_text(headers, field, rules)?,
                AttributeLocation::Query(part) => {
                    only_parameter(query.unwrap_or_default().as_bytes(), part, &self.rules)?
                }
                AttributeLocation::Cookie(cookie) => only_cookie(headers, cookie, &self.rules)?,
                AttributeLocation::Claim(claim) => {
                    claims.and_then(|it| it.get(claim)).map(Cow::Owned)
                }
            };
            if let Some(value) = value {
                found.0.push((name.clone(), value.into_owned()));
            }
        }
        Ok(found)
    }
}

/// The rules for one field. Its other spelling matters only if it has an underscore itself: fields that
/// have one and that nobody has named are not forwarded.
pub(crate) fn rules_for_field(name: &str, rules: &RequestRules) -> RequestRules {
    if name.contains('_') { *rules } else { rules.keep_underscores() }
}

impl AttributeLocation {
    fn field(name: &str, gateway: &GatewayPlan) -> Self {
        let name = name.to_ascii_lowercase();
        let rules = rules_for_field(&name, &gateway.requests);
        Self::Header(name, rules)
    }

    fn of(attribute: &str, gateway: &GatewayPlan) -> Option<Self> {
        if attribute == "api_key" {
            return match &gateway.api_key {
                ApiKeyLocation::Header(name) => Some(Self::field(name, gateway)),
                ApiKeyLocation::Query(name) => Some(Self::Query(name.clone())),
                ApiKeyLocation::Cookie(name) => Some(Self::Cookie(name.clone())),
                _ => None,
            };
        }
        let (kind, name) = attribute.split_once(':')?;
        let name = name.to_owned();
        match kind {
            "header" => Some(Self::field(&name, gateway)),
            "query" => Some(Self::Query(name)),
            "cookie" => Some(Self::Cookie(name)),
            "jwt" => Some(Self::Claim(name)),
            _ => None,
        }
    }
}

/// The values that were found, by the names of attributes.
#[derive(Debug, Default)]
pub(crate) struct AttributeValues(Vec<(String, Vec<u8>)>);

impl AttributeValues {
    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.0.iter()
    }
}

/// Everything that is known of a request.
#[derive(Debug)]
pub(crate) struct RequestAttributes<'r> {
    pub(crate) method: &'r str,
    pub(crate) asked: &'r RequestTarget<'r>,
    pub(crate) client: Option<&'r str>,
    pub(crate) route: Option<&'r str>,
    pub(crate) found: &'r AttributeValues,
}

impl Attributes for RequestAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        match name {
            "ip" => self.client.map(str::as_bytes),
            "method" => Some(self.method.as_bytes()),
            "host" => Some(self.asked.host.name().as_bytes()),
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
pub(crate) struct RouteAttributes<'r> {
    pub(crate) method: &'r str,
    pub(crate) asked: &'r RequestTarget<'r>,
    pub(crate) headers: &'r HeaderMap,
}

impl Attributes for RouteAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        match name {
            "method" => Some(self.method.as_bytes()),
            "host" => Some(self.asked.host.name().as_bytes()),
            "path" => Some(self.asked.path.as_bytes()),
            name => {
                let value = self.headers.get(name.strip_prefix("header:")?);
                value.map(|value| HeaderValue::as_bytes(value).trim_ascii())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config::PolicySource;

    fn find(
        key: &str,
        fields: &[(&str, &str)],
        query: &str,
    ) -> Result<Option<String>, RequestFault> {
        let text = format!(
            "gateway: {{ upstreams: {{ a: http://h }}, jwt: {{ keys: k, algorithms: HS256 }} }}\n\
             policies: [{{ name: p, key: ['{key}'], limits: [1/s] }}]"
        );
        let plan = Plan::compile(&PolicySource::new("test", text).unwrap()).unwrap();
        let wanted = AttributeLookup::by(&plan, plan.gateway().unwrap());
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
            ("query:user", &[], "user", None),
            ("query:user", &[], "users=1", None),
            ("cookie:sid", &[("cookie", "a=b; sid=1=2;c=d")], "", Some("1=2")),
            ("cookie:sid", &[("cookie", "xsid=1; sid2=2")], "", None),
            // However a service trims, nobody is without a name here who has one there.
            ("cookie:sid", &[("cookie", "sid =1")], "", Some("1")),
            ("cookie:sid", &[("cookie", "a=b; sid = 1 ;c=d")], "", Some("1")),
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
        assert!(find("cookie:sid", &[("cookie", "sid=1; sid =2")], "").is_err());
        assert!(find("api_key", &[("x-api-key", "a"), ("x-api-key", "b")], "").is_err());
    }
}
