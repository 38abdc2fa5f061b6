//! Who a question is about.

use tidegate::config::PlannedPolicy;
use tidegate::{Cost, Owed, Plan};
use tidegate_wire::{Attributes, Text};

use super::diagnose::bounded;
use super::problem::{Refusal, brief, priced};

/// Who, in either form.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    Named { policy: Text<'a>, key: Text<'a> },
    Described(Attributes<'a>),
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        policy: Option<Text<'a>>,
        key: Option<Text<'a>>,
        attributes: Option<Attributes<'a>>,
    ) -> Result<Self, Refusal> {
        match (policy, key, attributes) {
            (Some(policy), Some(key), None) => Ok(Self::Named { policy, key }),
            (None, None, Some(attributes)) => {
                unambiguous(&attributes)?;
                Ok(Self::Described(attributes))
            }
            (None, None, None) => Err(Refusal::bad(None, NEITHER)),
            (_, _, Some(_)) => Err(Refusal::bad(Some("attributes"), BOTH)),
            (Some(_), None, None) => Err(Refusal::bad(Some("key"), NO_KEY)),
            (None, Some(_), None) => Err(Refusal::bad(Some("policy"), NO_POLICY)),
        }
    }

    /// What is owed by whoever it is, to all policies or to the one that is named.
    pub(super) fn owed<'p>(&self, plan: &'p Plan, cost: Cost) -> Result<Owed<'p>, Refusal> {
        match self {
            Self::Named { policy, key } => of_policy(plan, policy, key, cost),
            Self::Described(attributes) => {
                let attributes = Described(attributes);
                for name in plan.attributes() {
                    let value = tidegate::Attributes::attribute(&attributes, name);
                    bounded(value.unwrap_or_default(), || format!("attributes.{name}"))?;
                }
                priced(plan.charges(&attributes, cost), "attributes.")
            }
        }
    }
}

/// A policy by name, whose key is one attribute.
fn of_policy<'p>(plan: &'p Plan, name: &str, key: &str, cost: Cost) -> Result<Owed<'p>, Refusal> {
    let Some(policy) = plan.policy(name) else {
        return Err(Refusal::unknown_policy(name, plan.policies().iter().map(PlannedPolicy::name)));
    };
    bounded(key.as_bytes(), || "key".to_owned())?;
    let mut parts = policy.key();
    let owed = match (parts.next(), parts.next()) {
        (Some(attribute), None) => plan.charges_of(name, &[(attribute, key)], cost),
        _ => None,
    };
    owed.ok_or_else(|| Refusal::not_one_key(name, &policy.key().collect::<Vec<_>>()))
}

/// Each name once, and a name at all.
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
const BOTH: &str = "`attributes` came with `policy` or `key`: expected one form or the other";
const NO_KEY: &str = "`key` is missing: expected a string beside `policy`";
const NO_POLICY: &str = "`policy` is missing: expected a string beside `key`";
