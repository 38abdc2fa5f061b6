//! The subject of a check or refund: which policies and keys it is about.

use tidegate::config::PlannedPolicy;
use tidegate::{Cost, Plan, RequestCharges};
use tidegate_wire::{JsonAttributes, JsonText};

use super::diagnosis::bounded;
use super::refusal::{HttpRefusal, with_valid_cost};
use crate::transport::brief;

/// The subject of a check or refund, in one of its two forms.
#[derive(Debug)]
pub(super) enum HttpSubject<'a> {
    ByKey {
        policy: JsonText<'a>,
        key: JsonText<'a>,
    },
    /// For all policies, or for the named one.
    ByAttributes {
        policy: Option<JsonText<'a>>,
        attributes: JsonAttributes<'a>,
    },
}

impl<'a> HttpSubject<'a> {
    pub(super) fn new(
        policy: Option<JsonText<'a>>,
        key: Option<JsonText<'a>>,
        attributes: Option<JsonAttributes<'a>>,
    ) -> Result<Self, HttpRefusal> {
        match (policy, key, attributes) {
            (Some(policy), Some(key), None) => Ok(Self::ByKey { policy, key }),
            (policy, None, Some(attributes)) => {
                validate_names(&attributes)?;
                Ok(Self::ByAttributes { policy, attributes })
            }
            (None, None, None) => Err(HttpRefusal::invalid(None, NEITHER)),
            (_, _, Some(_)) => Err(HttpRefusal::invalid(Some("attributes"), BOTH)),
            (Some(_), None, None) => Err(HttpRefusal::invalid(Some("key"), NO_KEY)),
            (None, Some(_), None) => Err(HttpRefusal::invalid(Some("policy"), NO_POLICY)),
        }
    }

    /// The subject's charges in all policies, or in the named one.
    pub(super) fn request_charges<'p>(
        &self,
        plan: &'p Plan,
        cost: Cost,
    ) -> Result<RequestCharges<'p>, HttpRefusal> {
        match self {
            Self::ByKey { policy, key } => charges_by_key(plan, policy, key, cost),
            Self::ByAttributes { policy, attributes } => {
                let attributes = BodyAttributes(attributes);
                for name in plan.attributes() {
                    let value = tidegate::Attributes::attribute(&attributes, name);
                    bounded(value.unwrap_or_default(), || format!("attributes.{name}"))?;
                }
                let charges = match policy {
                    None => plan.charges(&attributes, cost),
                    Some(name) => charges_by_attributes(plan, name, &attributes, cost)?,
                };
                with_valid_cost(charges, "attributes.")
            }
        }
    }
}

fn policy<'p>(plan: &'p Plan, name: &str) -> Result<&'p PlannedPolicy, HttpRefusal> {
    let names = || plan.policies().iter().map(PlannedPolicy::name);
    plan.policy(name).ok_or_else(|| HttpRefusal::unknown_policy(name, names()))
}

/// The charges of a named policy whose key is in `attributes`.
fn charges_by_attributes<'p>(
    plan: &'p Plan,
    name: &str,
    attributes: &BodyAttributes<'_>,
    cost: Cost,
) -> Result<RequestCharges<'p>, HttpRefusal> {
    let is_missing = |name: &&str| tidegate::Attributes::attribute(attributes, name).is_none();
    let charges = plan.charges_of(name, attributes, cost);
    match (charges, policy(plan, name)?.key().find(is_missing)) {
        (Some(charges), None) => Ok(charges),
        // An attribute with a default can be absent.
        (Some(charges), Some(_)) if !charges.is_empty() || charges.unlimited_by().is_some() => {
            Ok(charges)
        }
        (_, missing) => {
            let missing = missing.unwrap_or_default();
            let detail = format!("`attributes` has no {missing:?}: policy {name:?} counts by it");
            Err(HttpRefusal::invalid(Some(&format!("attributes.{missing}")), detail))
        }
    }
}

/// The charges of a named policy whose key is one attribute.
fn charges_by_key<'p>(
    plan: &'p Plan,
    name: &str,
    key: &str,
    cost: Cost,
) -> Result<RequestCharges<'p>, HttpRefusal> {
    let policy = policy(plan, name)?;
    bounded(key.as_bytes(), || "key".to_owned())?;
    let mut parts = policy.key();
    let charges = match (parts.next(), parts.next()) {
        (Some(attribute), None) => plan.charges_of(name, &[(attribute, key)], cost),
        _ => None,
    };
    charges.ok_or_else(|| HttpRefusal::not_one_key(name, &policy.key().collect::<Vec<_>>()))
}

/// Refuses invalid names, and names that occur twice.
fn validate_names(JsonAttributes(pairs): &JsonAttributes<'_>) -> Result<(), HttpRefusal> {
    let (count, most) = (pairs.len(), JsonAttributes::MAX);
    if count > most {
        let detail = format!("`attributes` has {count} members: expected at most {most}");
        return Err(HttpRefusal::invalid(Some("attributes"), detail));
    }
    for (index, (name, _)) in pairs.iter().enumerate() {
        let problem = if !JsonAttributes::is_name(name) {
            "is not a valid name: expected text without control characters"
        } else if pairs.iter().take(index).any(|(other, _)| other == name) {
            "occurs twice: expected one value"
        } else {
            continue;
        };
        let name = brief(name);
        let detail = format!("{name:?} in `attributes` {problem}");
        return Err(HttpRefusal::invalid(Some(&format!("attributes.{name}")), detail));
    }
    Ok(())
}

/// The attributes of a body, where `null` means absent.
struct BodyAttributes<'a>(&'a JsonAttributes<'a>);

impl tidegate::Attributes for BodyAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        let JsonAttributes(pairs) = self.0;
        let (_, value) = pairs.iter().find(|(other, _)| &**other == name)?;
        value.as_ref().map(|value| value.as_bytes())
    }
}

const NEITHER: &str = "nothing says who is asking: expected `policy` and `key`, or `attributes`";
const BOTH: &str = "`attributes` and `key` are both present: expected one or the other";
const NO_KEY: &str = "`key` is missing: expected a string beside `policy`, or `attributes`";
const NO_POLICY: &str = "`policy` is missing: expected a string beside `key`";
