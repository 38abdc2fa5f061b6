//! The attributes of a request, for policies and routes. Only attributes that a policy uses are looked up.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};
use tidegate::config::RequestRules;
use tidegate::{Attributes, Plan};
use tidegate_http::{RequestFault, only_cookie, only_parameter, only_text};

use crate::config::{ApiKeyLocation, GatewayPlan};
use crate::jwt::JwtClaims;
use crate::request_target::RequestTarget;

/// The attributes that a plan uses and that have to be looked up in fields, query, cookies or claims.
#[derive(Debug, Default)]
pub(crate) struct AttributeLookup {
    /// The names of attributes, and the locations of their values.
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

    /// Looks up all values. A value that can be read in two ways is refused: the gateway could count by
    /// one reading, and the service use the other.
    pub(crate) fn find(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        claims: Option<&JwtClaims>,
    ) -> Result<AttributeValues, RequestFault> {
        let mut found = AttributeValues::default();
        for (name, location) in &self.values {
            let value = match location {
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

/// The rules for one field. The spelling with underscores matters only if the name has one: any other
/// field with an underscore is not forwarded anyway.
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

/// The values that were found, with the names of their attributes.
#[derive(Debug, Default)]
pub(crate) struct AttributeValues(Vec<(String, Vec<u8>)>);

impl AttributeValues {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.0.iter()
    }
}

/// All attributes of a request, for policies.
#[derive(Debug)]
pub(crate) struct RequestAttributes<'r> {
    pub(crate) method: &'r str,
    pub(crate) target: &'r RequestTarget<'r>,
    pub(crate) client: Option<&'r str>,
    pub(crate) route: Option<&'r str>,
    pub(crate) found: &'r AttributeValues,
}

impl Attributes for RequestAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        match name {
            "ip" => self.client.map(str::as_bytes),
            "method" => Some(self.method.as_bytes()),
            "host" => Some(self.target.host.name().as_bytes()),
            "path" => Some(self.target.path.as_bytes()),
            "route" => self.route.map(str::as_bytes),
            name => {
                let found = self.found.iter().find(|(other, _)| other == name);
                found.map(|(_, value)| &value[..])
            }
        }
    }
}

/// The attributes that a route is chosen by.
pub(crate) struct RouteAttributes<'r> {
    pub(crate) method: &'r str,
    pub(crate) target: &'r RequestTarget<'r>,
    pub(crate) headers: &'r HeaderMap,
}

impl Attributes for RouteAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        match name {
            "method" => Some(self.method.as_bytes()),
            "host" => Some(self.target.host.name().as_bytes()),
            "path" => Some(self.target.path.as_bytes()),
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
    use crate::config::{GatewaySection, SECTIONS};
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
        let plan = Plan::compile(&PolicySource::new("test", text).unwrap().with_sections(SECTIONS))
            .unwrap();
        let lookup = AttributeLookup::by(&plan, plan.section::<GatewaySection>().unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let found = lookup.find(&headers, Some(query), None)?;
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
            // Trim as leniently as any service: a cookie that it accepts must not be missing here.
            ("cookie:sid", &[("cookie", "sid =1")], "", Some("1")),
            ("cookie:sid", &[("cookie", "a=b; sid = 1 ;c=d")], "", Some("1")),
            ("user", &[("user", "1")], "user=1", None),
        ] {
            assert_eq!(find(key, fields, query).unwrap().as_deref(), expected, "{key} {query}");
        }
    }

    #[test]
    fn a_repeated_value_is_refused() {
        assert!(find("header:x-user", &[("x-user", "1"), ("x-user", "2")], "").is_err());
        assert!(find("query:user", &[], "user=1&user=2").is_err());
        assert!(find("query:user", &[], "user=1&%75ser=1").is_err());
        assert!(find("cookie:sid", &[("cookie", "sid=1"), ("cookie", "sid=2")], "").is_err());
        assert!(find("cookie:sid", &[("cookie", "sid=1; sid =2")], "").is_err());
        assert!(find("api_key", &[("x-api-key", "a"), ("x-api-key", "b")], "").is_err());
    }
}
