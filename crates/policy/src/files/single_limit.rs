//! Policies for which the key alone determines the charge.

use tidegate_core::{Charge, Cost};

use crate::Plan;
use crate::files::cost::CostSource;
use crate::files::key_names::KeyNames;
use crate::files::settings::PolicyMode;
use crate::files::subject::KeyPart;
use crate::key::Key;

/// A policy whose key is one attribute and whose cost does not depend on the request: a caller that
/// checks many keys need not list attributes for each. It is valid for the plan in which it was found.
///
/// ```
/// use tidegate::config::{SingleLimit, PolicySource};
/// use tidegate::{Cost, Plan};
///
/// let text = "policies: [{ name: api, key: [user], limits: [100/minute] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// let api = SingleLimit::find(&plan, "api").ok_or("api has one limit")?;
/// let charges = plan.charges_of("api", &[("user", "alice")], Cost::ONE);
/// let charge = api.charge(b"alice", Cost::ONE, &plan);
/// assert_eq!(charge.as_ref(), charges.ok_or("api")?.charges().first());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SingleLimit {
    number: u32,
}

impl SingleLimit {
    /// The policy with this name, if it is of this kind, has no tiers, no penalty and no key format, and
    /// if no key is to be [shown](Plan::showing_keys).
    pub fn find(plan: &Plan, name: &str) -> Option<Self> {
        let number = *plan.by_name.get(name)?;
        let policy = plan.policies.get(number as usize)?;
        let is_plain = policy.mode != PolicyMode::Off
            && policy.key.len() == 1
            && policy.tiers.is_empty()
            && policy.block.is_none()
            && matches!(policy.cost, CostSource::Fixed(_))
            && matches!(policy.key_names, KeyNames::StoreDefault);
        (is_plain && !plan.shows_keys && !plan.names_keys).then_some(Self { number })
    }

    /// The charge of this key, at a cost that includes the policy's own. `None` unless exactly one limit
    /// applies to the key.
    #[inline]
    pub fn charge<'p>(&self, key: &[u8], cost: Cost, plan: &'p Plan) -> Option<Charge<'p>> {
        let policy = plan.policies.get(self.number as usize)?;
        let [part] = &policy.key[..] else { return None };
        let subject = plan.hasher.fingerprint(&SinglePartKey { part, value: key });
        let overrides = &policy.overrides;
        let own = if overrides.is_empty() { None } else { overrides.get(&subject) };
        let [rule] = own.unwrap_or(&policy.limits).rules() else { return None };
        Some(Charge::new(subject, cost, rule).of_policy(self.number))
    }
}

/// A key of one part, in its normal form.
struct SinglePartKey<'a> {
    part: &'a KeyPart,
    value: &'a [u8],
}

impl Key for SinglePartKey<'_> {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        self.part.form.each_part(self.value, &mut part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySource;

    const TEXT: &str = "
policies:
  - { name: text, key: [user], limits: [5/minute] }
  - { name: shadow, mode: shadow, key: [user], limits: [5/minute] }
  - { name: address, key: [ip], limits: [5/minute burst 9] }
  - { name: path, key: [path], limits: [5/minute], cost: 3 }
  - name: overridden
    key: [user]
    limits: [5/minute]
    overrides: { 'user=alice': [7/minute], 'user=bob': [7/minute, 9/hour], 'user=eve': unlimited }
  - { name: two, key: [user], limits: [5/minute, 9/hour] }
  - { name: both, key: [user, ip], limits: [5/minute] }
  - { name: nobody, key: [], limits: [5/minute] }
  - { name: off, mode: off, key: [user], limits: [5/minute] }
  - { name: penalty, key: [user], limits: [5/minute], block_for: 1m }
  - { name: priced, key: [user], limits: [5/minute], cost: { attribute: tokens } }
  - name: tiers
    key: [user]
    limits: [5/minute]
    tiers: [{ when: { user: alice }, limits: [7/minute] }]
";

    fn plan() -> Plan {
        Plan::compile(&PolicySource::new("limits.yaml", TEXT).unwrap()).unwrap()
    }

    /// For every spelling of a key, and for keys with overrides.
    #[test]
    fn a_key_alone_gives_the_same_charges_as_its_request() {
        let plan = plan();
        let keys = ["alice", "bob", "eve", "", "203.0.113.9", "2001:DB8::1", "/a/../b", "%2Fa"];
        for name in ["text", "shadow", "address", "path", "overridden"] {
            let single = SingleLimit::find(&plan, name).unwrap();
            let attribute = plan.policy(name).unwrap().key().next().unwrap();
            let price = Cost::new(if name == "path" { 6 } else { 2 }).unwrap();
            for key in keys {
                let charges = plan.charges_of(name, &[(attribute, key)], Cost::new(2).unwrap());
                let charges = charges.unwrap();
                let expected = match charges.charges() {
                    [charge] => Some(*charge),
                    _ => None,
                };
                assert_eq!(single.charge(key.as_bytes(), price, &plan), expected, "{name} {key}");
            }
        }
    }

    #[test]
    fn a_policy_that_needs_more_than_its_key_has_no_single_limit() {
        let plan = plan();
        for name in ["both", "nobody", "off", "penalty", "priced", "tiers", "missing"] {
            assert!(SingleLimit::find(&plan, name).is_none(), "{name}");
        }
        let two = SingleLimit::find(&plan, "two").unwrap();
        assert_eq!(two.charge(b"alice", Cost::ONE, &plan), None);
        assert!(SingleLimit::find(&plan.showing_keys(true), "text").is_none());
    }
}
