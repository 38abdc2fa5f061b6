//! The caller that an operator means.

use std::collections::HashMap;

use serde::Deserialize;
use tidegate::config::PlannedPolicy;
use tidegate::{Attributes, Cost, Owed, Plan};

use super::body::{Body, Kind, Member, optional};
use crate::transport::http::problem::{Refusal, priced};

/// A policy and a key, a policy and attributes, or attributes alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subject {
    policy: Option<String>,
    key: Option<String>,
    #[serde(default)]
    attributes: HashMap<String, String>,
    /// For a refund.
    pub(super) amount: Option<u64>,
}

impl Body for Subject {
    const MEMBERS: &'static [Member] = &[
        optional("policy", Kind::Text),
        optional("key", Kind::Text),
        optional("attributes", Kind::Attributes),
        optional("amount", Kind::Count),
    ];
}

impl Subject {
    /// What they owe for `cost`, under the policies that are meant.
    pub(super) fn owed<'p>(&self, plan: &'p Plan, cost: Cost) -> Result<Owed<'p>, Refusal> {
        let owed = match (&self.policy, &self.key) {
            (Some(name), key) => {
                let policy = policy(plan, name)?;
                let mut given = Given(&self.attributes, None);
                if let Some(key) = key {
                    let parts: Vec<&str> = policy.key().collect();
                    let [attribute] = parts[..] else {
                        return Err(Refusal::not_one_key(name, &parts));
                    };
                    given.1 = Some((attribute, key));
                }
                plan.charges_of(name, &given, cost)
            }
            (None, None) => Some(plan.charges(&Given(&self.attributes, None), cost)),
            (None, Some(_)) => {
                return Err(Refusal::bad(Some("policy"), "a key without a policy: expected both"));
            }
        };
        match owed {
            Some(owed) if !owed.is_empty() || owed.unlimited_by().is_some() => {
                priced(owed, "attributes.")
            }
            _ => Err(Refusal::bad(
                Some("attributes"),
                "no limit applies: expected a policy that is on, and the attributes of its key",
            )),
        }
    }
}

/// Attributes, and the one that a key stands for.
struct Given<'a>(&'a HashMap<String, String>, Option<(&'a str, &'a str)>);

impl Attributes for Given<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        let key = self.1.filter(|(attribute, _)| *attribute == name).map(|(_, key)| key);
        key.or_else(|| self.0.get(name).map(String::as_str)).map(str::as_bytes)
    }
}

/// The policy with this name, or which ones there are instead.
pub(super) fn policy<'p>(plan: &'p Plan, name: &str) -> Result<&'p PlannedPolicy, Refusal> {
    plan.policy(name).ok_or_else(|| {
        Refusal::unknown_policy(name, plan.policies().iter().map(PlannedPolicy::name))
    })
}
