//! The subject of an operator's action: whose counters it concerns.

use std::collections::HashMap;

use serde::Deserialize;
use tidegate::config::PlannedPolicy;
use tidegate::{Attributes, Cost, Plan, RequestCharges};

use super::body::{AdminBody, BodyMember, MemberKind, optional};
use crate::transport::http::refusal::{HttpRefusal, with_valid_cost};

/// The subject of an action: a policy and a key, a policy and attributes, or attributes alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdminSubject {
    policy: Option<String>,
    key: Option<String>,
    #[serde(default)]
    attributes: HashMap<String, String>,
    /// For a refund.
    pub(super) amount: Option<u64>,
}

impl AdminBody for AdminSubject {
    const MEMBERS: &'static [BodyMember] = &[
        optional("policy", MemberKind::Text),
        optional("key", MemberKind::Text),
        optional("attributes", MemberKind::Attributes),
        optional("amount", MemberKind::Count),
    ];
}

impl AdminSubject {
    /// The subject's charges for `cost`, under the policy given or all that apply.
    pub(super) fn charges<'p>(
        &self,
        plan: &'p Plan,
        cost: Cost,
    ) -> Result<RequestCharges<'p>, HttpRefusal> {
        let charges = match (&self.policy, &self.key) {
            (Some(name), key) => {
                let policy = policy(plan, name)?;
                let mut given = SubjectAttributes(&self.attributes, None);
                if let Some(key) = key {
                    let parts: Vec<&str> = policy.key().collect();
                    let [attribute] = parts[..] else {
                        return Err(HttpRefusal::not_one_key(name, &parts));
                    };
                    given.1 = Some((attribute, key));
                }
                plan.charges_of(name, &given, cost)
            }
            (None, None) => Some(plan.charges(&SubjectAttributes(&self.attributes, None), cost)),
            (None, Some(_)) => {
                return Err(HttpRefusal::invalid(
                    Some("policy"),
                    "a key without a policy: expected both",
                ));
            }
        };
        match charges {
            Some(charges) if !charges.is_empty() || charges.unlimited_by().is_some() => {
                with_valid_cost(charges, "attributes.")
            }
            _ => Err(HttpRefusal::invalid(
                Some("attributes"),
                "no limit applies: expected a policy whose mode is not off, and the attributes of its key",
            )),
        }
    }
}

/// Attributes, and the one that a key stands for.
struct SubjectAttributes<'a>(&'a HashMap<String, String>, Option<(&'a str, &'a str)>);

impl Attributes for SubjectAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        let key = self.1.filter(|(attribute, _)| *attribute == name).map(|(_, key)| key);
        key.or_else(|| self.0.get(name).map(String::as_str)).map(str::as_bytes)
    }
}

/// The policy with this name, or a refusal that lists the policies that exist.
pub(super) fn policy<'p>(plan: &'p Plan, name: &str) -> Result<&'p PlannedPolicy, HttpRefusal> {
    plan.policy(name).ok_or_else(|| {
        HttpRefusal::unknown_policy(name, plan.policies().iter().map(PlannedPolicy::name))
    })
}
