//! The header fields that routes match on.

use http::{HeaderMap, HeaderName};
use tidegate::config::RequestRules;
use tidegate_http::{RequestFault, only_field};

use crate::attributes::rules_for_field;
use crate::config::GatewayPlan;

/// The names of the fields that routes match on, each with the rules for reading it.
#[derive(Debug)]
pub(crate) struct RouteFields {
    names: Vec<(HeaderName, RequestRules)>,
}

impl RouteFields {
    pub(crate) fn of(gateway: &GatewayPlan) -> Self {
        let fields = gateway.attributes().filter_map(|it| it.strip_prefix("header:"));
        let names = fields.filter_map(|name| {
            let rules = rules_for_field(name, &gateway.requests);
            Some((HeaderName::try_from(name).ok()?, rules))
        });
        Self { names: names.collect() }
    }

    /// Refuses a request with such a field twice: the gateway could use one value, and the service the
    /// other.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), RequestFault> {
        let mut fields = self.names.iter();
        fields.try_for_each(|(name, rules)| only_field(headers, name.as_str(), rules).map(drop))
    }
}
