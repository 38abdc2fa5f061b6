//! What Envoy descriptors owe: according to an envoyproxy/ratelimit file, or to our own policies.

use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, KeyPlaceholder, Limit, Rule};

use crate::foreign::envoy::EntryLimit;
use crate::key::Key;
use crate::policy::override_rule;
use crate::request_charges::RequestCharges;
use crate::{Attributes, Plan};

/// One descriptor of a request: entries in order, and what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Keys and values, in the order in which Envoy sends them.
    pub entries: &'a [(&'a str, &'a str)],
    /// Its hits.
    pub cost: Cost,
    /// A limit that it brings along, replacing any that is configured. See [`Plan::override_rule`].
    pub limit: Option<&'a Rule>,
}

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorOutcome {
    /// No limit applies to it, or another one replaces its limit.
    NoLimit,
    /// It is allowed whatever it costs.
    Unlimited,
    /// It owes these charges.
    Charged {
        /// The index of the first.
        first: usize,
        /// How many there are.
        count: usize,
    },
}

/// What a request of descriptors owes.
#[derive(Clone, Debug)]
pub struct DescriptorCharges<'p> {
    /// The charges, in the order of the descriptors.
    pub charges: RequestCharges<'p>,
    /// What became of each descriptor.
    pub statuses: SmallVec<[DescriptorOutcome; 4]>,
}

impl Plan {
    /// What descriptors owe.
    ///
    /// With an envoyproxy/ratelimit file, they owe what it says for their domain, by that server's
    /// rules: the most specific entry wins at each level, and the limit is the last entry's. With
    /// our own policies, the entries of each descriptor are attributes, and so is the `domain`.
    ///
    /// ```
    /// use tidegate::config::{Descriptor, PolicySource};
    /// use tidegate::{Cost, Plan};
    ///
    /// let text = "policies: [{ name: api, match: { domain: edge }, key: [user], limits: [5/s] }]";
    /// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
    /// let entries = [("user", "alice")];
    /// let descriptor = Descriptor { entries: &entries, cost: Cost::ONE, limit: None };
    /// assert_eq!(plan.descriptor_charges("edge", &[descriptor]).owed.charges().len(), 1);
    /// assert!(plan.descriptor_charges("other", &[descriptor]).owed.is_empty());
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn descriptor_charges<'r>(
        &'r self,
        domain: &str,
        descriptors: &[Descriptor<'r>],
    ) -> DescriptorCharges<'r> {
        let by_file = self.domains().iter().find(|other| other.name() == domain);
        let limits = by_file.map(|file| file.limits_of(descriptors)).unwrap_or_default();
        let mut owed = RequestCharges::new(self.policies()).naming_keys(self.names_keys);
        let mut statuses = SmallVec::new();
        for (index, descriptor) in descriptors.iter().enumerate() {
            let first = owed.charges().len();
            let limit = limits.get(index).copied().flatten();
            match (descriptor.limit, by_file) {
                (Some(rule), _) => self.charge_override(domain, descriptor, rule, &mut owed),
                (None, Some(file)) => file.charge(self, limit, descriptor, &mut owed),
                (None, None) if self.domains().is_empty() => {
                    let request = DescriptorAttributes { domain, entries: descriptor.entries };
                    self.charge(&request, descriptor.cost, &mut owed);
                }
                (None, None) => {}
            }
            let count = owed.charges().len().saturating_sub(first);
            statuses.push(match count {
                0 if limit.is_some_and(EntryLimit::is_unlimited) => DescriptorOutcome::Unlimited,
                0 => DescriptorOutcome::NoLimit,
                count => DescriptorOutcome::Charged { first, count },
            });
        }
        DescriptorCharges { charges: owed, statuses }
    }

    /// The rule for a limit that a descriptor brings along. Counters are identified by the domain,
    /// the entries and the window: another limit with the same window finds the count.
    pub fn override_rule(&self, limit: Limit) -> Rule {
        override_rule(&self.hasher, limit)
    }

    fn charge_override<'r>(
        &self,
        domain: &str,
        descriptor: &Descriptor<'r>,
        rule: &'r Rule,
        owed: &mut RequestCharges<'r>,
    ) {
        let counted = OverrideCounterKey { domain, entries: descriptor.entries };
        let charge = Charge::new(self.hasher.fingerprint(&counted), descriptor.cost, rule);
        match self.settings.key_format() {
            None => owed.push_override(charge, None),
            Some(format) if format.has(KeyPlaceholder::Limit) => {
                owed.push_override(charge, Some((counted.entity(), format.to_string())));
            }
            // Nothing would tell it from the limits of policies, or from another window.
            Some(_) => owed.push_override(charge.kept_as(""), None),
        }
    }
}

/// The entries of a descriptor, as the attributes of a request. The domain is the operator's, and
/// no entry can pretend to be another.
struct DescriptorAttributes<'a> {
    domain: &'a str,
    entries: &'a [(&'a str, &'a str)],
}

impl Attributes for DescriptorAttributes<'_> {
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        if name == "domain" {
            return Some(self.domain.as_bytes());
        }
        self.entries.attribute(name)
    }
}

/// What distinguishes the counters of overrides: everything that was said.
struct OverrideCounterKey<'a> {
    domain: &'a str,
    entries: &'a [(&'a str, &'a str)],
}

impl Key for OverrideCounterKey<'_> {
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        part(self.domain.as_bytes());
        for (key, value) in self.entries {
            part(key.as_bytes());
            part(value.as_bytes());
        }
    }
}

impl OverrideCounterKey<'_> {
    /// The same as text, for stores that show names to others.
    fn entity(&self) -> String {
        let mut parts = Vec::new();
        self.each_part(|part| parts.push(String::from_utf8_lossy(part).into_owned()));
        crate::planned_policy::join_parts(&parts)
    }
}
