//! Who a question is about.

use tidegate::config::PlannedPolicy;
use tidegate::{Cost, Owed, Plan};
use tidegate_wire::{Attributes, Text};

use super::diagnose::bounded;
use super::problem::{Refusal, brief, priced};

/// The subject, in any form.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    Named {
        policy: Text<'a>,
        key: Text<'a>,
    },
    /// To all policies, or to the one that is named.
    Described {
        policy: Option<Text<'a>>,
        attributes: Attributes<'a>,
    },
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        policy: Option<Text<'a>>,
        key: Option<Text<'a>>,
        attributes: Option<Attributes<'a>>,
    ) -> Result<Self, Refusal> {
        match (policy, key, attributes) {
            (Some(policy), Some(key), None) => Ok(Self::Named { policy, key }),
            (policy, None, Some(attributes)) => {
                unambiguous(&attributes)?;
                Ok(Self::Described { policy, attributes })
            }
            (None, None, None) => Err(Refusal::bad(None, NEITHER)),
            (_, _, Some(_)) => Err(Refusal::bad(Some("attributes"), BOTH)),
            (Some(_), None, None) => Err(Refusal::bad(Some("key"), NO_KEY)),
            (None, Some(_), None) => Err(Refusal::bad(Some("policy"), NO_POLICY)),
        }
    }

    /// What the subject owes, to all policies or to the one that is named.
    pub(super) fn owed<'p>(&self, plan: &'p Plan, cost: Cost) -> Result<Owed<'p>, Refusal> {
        match self {
            Self::Named { policy, key } => of_policy(plan, policy, key, cost),
            Self::Described { policy, attributes } => {
                let attributes = Described(attributes);
                for name in plan.attributes() {
                    let value = tidegate::Attributes::attribute(&attributes, name);
                    bounded(value.unwrap_or_default(), || format!("attributes.{name}"))?;
                }
                let owed = match policy {
                    None => plan.charges(&attributes, cost),
                    Some(name) => described_to(plan, name, &attributes, cost)?,
                };
                priced(owed, "attributes.")
            }
        }
    }
}

fn policy<'p>(plan: &'p Plan, name: &str) -> Result<&'p PlannedPolicy, Refusal> {
    let names = || plan.policies().iter().map(PlannedPolicy::name);
    plan.policy(name).ok_or_else(|| Refusal::unknown_policy(name, names()))
}

/// A policy by name, and everything that its key needs to know.
fn described_to<'p>(
    plan: &'p Plan,
    name: &str,
    attributes: &Described<'_>,
    cost: Cost,
) -> Result<Owed<'p>, Refusal> {
    let is_missing = |name: &&str| tidegate::Attributes::attribute(attributes, name).is_none();
    let owed = plan.charges_of(name, attributes, cost);
    match (owed, policy(plan, name)?.key().find(is_missing)) {
        (Some(owed), None) => Ok(owed),
        // An attribute with a default need not be there.
        (Some(owed), Some(_)) if !owed.is_empty() || owed.unlimited_by().is_some() => Ok(owed),
        (_, missing) => {
            let missing = missing.unwrap_or_default();
            let detail = format!("`attributes` has no {missing:?}: policy {name:?} counts by it");
            Err(Refusal::bad(Some(&format!("attributes.{missing}")), detail))
        }
    }
}

/// A policy by name, whose key is one attribute.
fn of_policy<'p>(plan: &'p Plan, name: &str, key: &str, cost: Cost) -> Result<Owed<'p>, Refusal> {
    let policy = policy(plan, name)?;
    bounded(key.as_bytes(), || "key".to_owned())?;
    let mut parts = policy.key();
    let owed = match (parts.next(), parts.next()) {
        (Some(attribute), None) => plan.charges_of(name, &[(attribute, key)], cost),
        _ => None,
    };
    owed.ok_or_else(|| Refusal::not_one_key(name, &policy.key().collect::<Vec<_>>()))
}

/// Each name once, and only valid names.
fn unambiguous(Attributes(pairs): &Attributes<'_>) -> Result<(), Refusal> {
    let (count, most) = (pairs.len(), Attributes::MAX);
    if count > most {
        let detail = format!("`attributes` has {count} members: expected at most {most}");
        return Err(Refusal::bad(Some("attributes"), detail));
    }
    for (index, (name, _)) in pairs.iter().enumerate() {
        let expected = if !Attributes::is_name(name) {
            "is no name: expected text without control characters"
        } else if pairs.iter().take(index).any(|(other, _)| other == name) {
            "is there twice: expected one value"
        } else {
            continue;
        };
        let name = brief(name);
        let detail = format!("{name:?} in `attributes` {expected}");
        return Err(Refusal::bad(Some(&format!("attributes.{name}")), detail));
    }
    Ok(())
}

/// `null` is absent.
struct Described<'a>(&'a Attributes<'a>);

impl tidegate::Attributes for Described<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        let Attributes(pairs) = self.0;
        let (_, value) = pairs.iter().find(|(other, _)| &**other == name)?;
        value.as_ref().map(|value| value.as_bytes())
    }
}

const NEITHER: &str = "nothing says who is meant: expected policy and key, or attributes";
const BOTH: &str = "`attributes` came with `key`: expected one or the other";
const NO_KEY: &str = "`key` is missing: expected a string beside `policy`, or attributes";
const NO_POLICY: &str = "`policy` is missing: expected a string beside `key`";
