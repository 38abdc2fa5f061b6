//! Limits that come with a request instead of belonging to a policy.

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};

use crate::policy::{identity, kind};
use crate::{Key, KeyHasher, Plan, RequestCharges};

/// A limit that came with a request, and the key it applies to.
///
/// ```
/// use tidegate::config::PolicySource;
/// use tidegate::{Cost, Plan};
///
/// let text = "policies: [{ name: api, key: [user], limits: [100/minute] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// let limit = plan.ad_hoc("mails", "5/hour".parse()?, "alice");
/// assert_eq!(limit.charge(Cost::ONE).rule().limit.capacity(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AdHocLimit {
    subject: Fingerprint,
    rule: Rule,
}

impl AdHocLimit {
    pub(crate) fn new<K: Key + ?Sized>(
        hasher: &KeyHasher,
        space: &str,
        limit: Limit,
        key: &K,
    ) -> Self {
        let (counts_by, window) = kind(&limit);
        // Three parts: the rules of policies have four, so the two never collide.
        let id = hasher.unrelated().fingerprint(&(space, counts_by, window.as_micros()));
        // A caller can bring a thousand windows. Together they get the space of one policy.
        let id = id.with_pool(AD_HOC_POOL);
        let rule = Rule { id, limit, enforced: true, staggered: false };
        Self { subject: hasher.fingerprint(key), rule }
    }

    /// The charge to this limit for something that costs `cost`.
    pub fn charge(&self, cost: Cost) -> Charge<'_> {
        Charge::new(self.subject, cost, &self.rule)
    }

    /// The charges of a request that brings only this limit. They belong to no policy.
    pub fn request_charges(&self, cost: Cost) -> RequestCharges<'_> {
        let mut charges = RequestCharges::new(&[]);
        charges.push_ad_hoc(self.charge(cost));
        charges
    }

    /// The charge to the same limit for another key of the same plan, without computing the rule
    /// again.
    #[inline]
    pub fn charge_of<K: Key + ?Sized>(&self, key: &K, cost: Cost, plan: &Plan) -> Charge<'_> {
        Charge::new(plan.hasher.fingerprint(key), cost, &self.rule)
    }
}

impl Plan {
    /// A limit that came with a request, for `key`. Counters are identified by the space, the key,
    /// the algorithm and the window: with another quota the old count is found, as for a policy. A
    /// space is an entry point or a purpose: keys of different spaces never collide.
    pub fn ad_hoc<K: Key + ?Sized>(&self, space: &str, limit: Limit, key: &K) -> AdHocLimit {
        AdHocLimit::new(&self.hasher, space, limit, key)
    }
}

/// The pool of all limits that come with requests.
pub(crate) const AD_HOC_POOL: u16 = 0;

/// The rule of a limit that comes with a request. Its name is empty, so it never collides with the
/// rules of policies.
pub(crate) fn override_rule(hasher: &KeyHasher, limit: Limit) -> Rule {
    let id = hasher.unrelated().fingerprint(&identity("", &limit, 0));
    let id = id.with_pool(AD_HOC_POOL);
    Rule { id, limit, enforced: true, staggered: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn counter(space: &str, limit: &str, key: &str) -> Fingerprint {
        let hasher = KeyHasher::of_this_process();
        AdHocLimit::new(&hasher, space, limit.parse().unwrap(), key).charge(Cost::ONE).counter()
    }

    #[test]
    fn only_what_makes_counts_meaningless_changes_the_counter() {
        let one = counter("a", "5/minute burst 5", "alice");
        assert_eq!(one, counter("a", "50/minute burst 9", "alice"));
        for (space, limit, key) in [
            ("b", "5/minute burst 5", "alice"),
            ("a", "5/hour burst 5", "alice"),
            ("a", "5/minute", "alice"),
            ("a", "5/minute burst 5", "bob"),
        ] {
            assert_ne!(one, counter(space, limit, key));
        }
    }

    #[test]
    fn all_of_them_have_one_pool() {
        let hasher = KeyHasher::of_this_process();
        for (space, limit) in [("a", "5/minute"), ("a", "5/61s"), ("b", "5/hour burst 9")] {
            let ad_hoc = AdHocLimit::new(&hasher, space, limit.parse().unwrap(), "alice");
            assert_eq!(ad_hoc.charge(Cost::ONE).rule().id.pool(), AD_HOC_POOL);
        }
    }

    #[test]
    fn another_key_of_a_limit_is_as_if_it_had_come_first() {
        let source =
            crate::PolicySource::new("test", "policies: [{ name: a, key: [], limits: [1/s] }]");
        let plan = Plan::compile(&source.unwrap()).unwrap();
        let limit = |key: &str| plan.ad_hoc("a", "5/minute burst 5".parse().unwrap(), key);
        let (alice, bob) = (limit("alice"), limit("bob"));
        let other = alice.charge_of("bob", Cost::ONE, &plan);
        assert_eq!(other, bob.charge(Cost::ONE));
        assert_ne!(other, alice.charge(Cost::ONE));
    }

    #[test]
    fn a_policy_of_the_same_name_has_other_counters() {
        let limit: Limit = "5/minute".parse().unwrap();
        let policy = Policy::new("a", [limit]).unwrap();
        let theirs = policy.charges("alice", Cost::ONE)[0].counter();
        assert_ne!(counter("a", "5/minute", "alice"), theirs);
    }
}
