//! Decides which header fields and trailers of a request are forwarded to a service.

use bytes::Bytes;
use http::HeaderName;
use http::request::Parts;
use hyper::body::Frame;
use tidegate::Plan;
use tidegate_http::is_grpc_call;

use super::{FieldRules, hop};
use crate::config::{ApiKeyLocation, GatewayPlan};

/// Decides which header fields of a request are forwarded.
#[derive(Debug, Default)]
pub(crate) struct FieldFilter {
    keeps_underscores: bool,
    keeps_overrides: bool,
    /// The fields that policies and routes use. They pass, so that the service sees what was counted.
    used: Vec<HeaderName>,
}

impl FieldFilter {
    pub(crate) fn by(plan: &Plan, gateway: &GatewayPlan) -> Self {
        let named = plan.attributes().chain(gateway.attributes());
        let named = named.filter_map(|attribute| attribute.strip_prefix("header:"));
        let key = match &gateway.api_key {
            ApiKeyLocation::Header(name) => Some(name.as_str()),
            _ => None,
        };
        let names = named.chain(key).filter_map(|name| HeaderName::try_from(name).ok());
        Self {
            keeps_underscores: gateway.requests.keeps_underscores(),
            keeps_overrides: gateway.requests.keeps_override_fields(),
            used: names.collect(),
        }
    }

    /// Whether a field of this name is forwarded.
    pub(crate) fn passes(&self, name: &HeaderName) -> bool {
        let text = name.as_str();
        if hop::is_replaced_or_dropped(text) {
            return false;
        }
        // Many services read an underscore as a hyphen, so `x_real_ip` could forge `x-real-ip`.
        if text.contains('_') {
            let other = text.replace('_', "-");
            let is_kept = self.keeps_underscores
                && !hop::is_replaced_or_dropped(&other)
                && self.allows(&other);
            return is_kept || self.used.contains(name);
        }
        self.allows(text) || self.used.contains(name)
    }

    fn allows(&self, name: &str) -> bool {
        self.keeps_overrides || !hop::is_override(name)
    }

    fn uses(&self, name: &str) -> bool {
        self.used.iter().any(|used| used == name)
    }
}

/// Decides which trailers of a request are forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TrailerFilter {
    /// None: a service that merges trailers into the head would see another request than was counted.
    #[default]
    Dropped,
    /// Only those of gRPC.
    Grpc,
}

impl TrailerFilter {
    pub(crate) fn of(parts: &Parts, filter: &FieldFilter, rules: &FieldRules) -> Self {
        let is_free =
            |name: &'static str| !filter.uses(name) && !rules.drops(&HeaderName::from_static(name));
        let is_grpc =
            is_grpc_call(&parts.method, &parts.headers) && GRPC.iter().all(|name| is_free(name));
        if is_grpc { Self::Grpc } else { Self::Dropped }
    }

    /// The frame without the trailers that are not forwarded.
    pub(crate) fn filter(self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_trailers() {
            Ok(trailers) => {
                let fields = trailers.iter().filter(|(name, _)| self.passes(name));
                let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
                Frame::trailers(fields.collect())
            }
            Err(frame) => frame,
        }
    }

    /// Whether a field of this name is forwarded.
    pub(crate) fn passes(self, name: &HeaderName) -> bool {
        self == Self::Grpc && GRPC.contains(&name.as_str())
    }
}

const GRPC: &[&str] = &["grpc-status", "grpc-message", "grpc-status-details-bin"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{GatewaySection, SECTIONS};
    use tidegate::config::PolicySource;

    fn filter(rules: &str, key: &str) -> FieldFilter {
        let text = format!(
            "gateway: {{ upstreams: {{ a: http://h }}, requests: {{ {rules} }} }}\n\
             policies: [{{ name: p, key: ['{key}'], limits: [1/s] }}]"
        );
        let plan = Plan::compile(&PolicySource::new("test", text).unwrap().with_sections(SECTIONS))
            .unwrap();
        FieldFilter::by(&plan, plan.section::<GatewaySection>().unwrap())
    }

    fn passes(filter: &FieldFilter, name: &'static str) -> bool {
        filter.passes(&HeaderName::from_static(name))
    }

    #[test]
    fn attack_04_nobody_forges_what_we_write() {
        let (strict, lenient) = (filter("", "ip"), filter("underscores: keep", "ip"));
        for name in ["x-forwarded-for", "x_forwarded_for", "x-forwarded_proto", "content_length"] {
            assert!(!passes(&strict, name) && !passes(&lenient, name), "{name}");
        }
        for name in ["x_api_key", "x_internal-key"] {
            assert!(!passes(&strict, name) && passes(&lenient, name), "{name}");
        }
        assert!(passes(&strict, "x-api-key") && passes(&strict, "te-x"));
        assert!(passes(&filter("", "header:x_user"), "x_user"));
    }

    #[test]
    fn attack_22_fields_that_override_the_request_are_dropped() {
        let (strict, lenient) = (filter("", "ip"), filter("override_fields: keep", "ip"));
        for name in ["x-original-url", "x-http-method-override", "true-client-ip"] {
            assert!(!passes(&strict, name) && passes(&lenient, name), "{name}");
        }
        assert!(!passes(&filter("underscores: keep", "ip"), "x_original_url"));
        assert!(passes(&filter("", "header:True-Client-IP"), "true-client-ip"));
    }
}
