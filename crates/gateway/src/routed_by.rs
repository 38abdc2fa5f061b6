//! The fields that routes look at.

use http::{HeaderMap, HeaderName};
use tidegate::config::gateway::Gateway;

use crate::problem::Refusal;

/// Their names.
#[derive(Debug)]
pub(crate) struct RoutedBy(Vec<HeaderName>);

impl RoutedBy {
    pub(crate) fn of(gateway: &Gateway) -> Self {
        let fields = gateway.attributes().filter_map(|it| it.strip_prefix("header:"));
        Self(fields.filter_map(|name| HeaderName::try_from(name).ok()).collect())
    }

    /// Refuses a field with two values: we might go by the one, and the service by the other.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_ambiguous = |name: &&HeaderName| {
            let mut values = headers.get_all(*name).iter();
            values.next().is_some_and(|first| values.any(|other| other != first))
        };
        match self.0.iter().find(is_ambiguous) {
            Some(name) => {
                let detail = format!("header:{name} is there with two values: expected one");
                Err(Refusal::bad(detail))
            }
            None => Ok(()),
        }
    }
}
