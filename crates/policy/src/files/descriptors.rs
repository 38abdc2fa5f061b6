//! The charges of Envoy descriptors, under an envoyproxy/ratelimit file or under our own policies.

use smallvec::SmallVec;
use tidegate_core::{Charge, ChargeNames, Cost, KeyPlaceholder, Limit, Rule};

use crate::files::ad_hoc_limit::override_rule;
use crate::files::foreign::envoy::EntryLimit;
use crate::files::request_charges::RequestCharges;
use crate::key::Key;
use crate::{Attributes, Plan};

/// One descriptor of a request: its entries in order, and its cost.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Keys and values, in the order in which Envoy sends them.
    pub entries: &'a [(&'a str, &'a str)],
    /// The cost, which Envoy calls hits.
    pub cost: Cost,
    /// A limit that it brings along, replacing any that is configured. See [`Plan::override_rule`].
    pub limit: Option<&'a Rule>,
}

/// The outcome for one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorOutcome {
    /// No limit applies, or the limit of another descriptor replaces its limit.
    NoLimit,
    /// It is allowed at any cost.
    Unlimited,
    /// It has these charges.
    Charged {
        /// The index of the first.
        first: usize,
        /// How many there are.
        count: usize,
    },
}

/// The charges of a request that consists of descriptors.
#[derive(Clone, Debug)]
pub struct DescriptorCharges<'p> {
    /// The charges, in the order of the descriptors.
    pub charges: RequestCharges<'p>,
    /// The outcome for each descriptor.
    pub statuses: SmallVec<[DescriptorOutcome; 4]>,
}

impl Plan {
    /// The charges of descriptors.
    ///
    /// With an envoyproxy/ratelimit file, the limits of their domain apply by the rules of that
    /// server: the most specific entry wins at each level, and the limit is the last entry's. With
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
    /// assert_eq!(plan.descriptor_charges("edge", &[descriptor]).charges.charges().len(), 1);
    /// assert!(plan.descriptor_charges("other", &[descriptor]).charges.is_empty());
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn descriptor_charges<'r>(
        &'r self,
        domain: &str,
        descriptors: &[Descriptor<'r>],
    ) -> DescriptorCharges<'r> {
        let by_file = self.domains().iter().find(|other| other.name() == domain);
        let limits = by_file.map(|file| file.limits_of(descriptors)).unwrap_or_default();
        let mut charges = self.no_charges();
        let mut statuses = SmallVec::new();
        for (index, descriptor) in descriptors.iter().enumerate() {
            let first = charges.charges().len();
            let limit = limits.get(index).copied().flatten();
            match (descriptor.limit, by_file) {
                (Some(rule), _) => self.charge_override(domain, descriptor, rule, &mut charges),
                (None, Some(file)) => file.charge(self, limit, descriptor, &mut charges),
                (None, None) if self.domains().is_empty() => {
                    let request = DescriptorAttributes { domain, entries: descriptor.entries };
                    self.charge(&request, descriptor.cost, &mut charges);
                }
                (None, None) => {}
            }
            let count = charges.charges().len().saturating_sub(first);
            statuses.push(match count {
                0 if limit.is_some_and(EntryLimit::is_unlimited) => DescriptorOutcome::Unlimited,
                0 => DescriptorOutcome::NoLimit,
                count => DescriptorOutcome::Charged { first, count },
            });
        }
        DescriptorCharges { charges, statuses }
    }

    /// The rule for a limit that a descriptor brings along. Counters are identified by the domain,
    /// the entries and the window: another limit with the same window continues the same count.
    pub fn override_rule(&self, limit: Limit) -> Rule {
        override_rule(&self.hasher, limit)
    }

    fn charge_override<'r>(
        &self,
        domain: &str,
        descriptor: &Descriptor<'r>,
        rule: &'r Rule,
        charges: &mut RequestCharges<'r>,
    ) {
        let counter_key = OverrideCounterKey { domain, entries: descriptor.entries };
        let charge = Charge::new(self.hasher.fingerprint(&counter_key), descriptor.cost, rule);
        charges.show_next(|| counter_key.entity());
        match self.settings.key_format() {
            None => charges.push_override(charge, None),
            Some(format) if format.has(KeyPlaceholder::Limit) => {
                charges.push_override(charge, Some((counter_key.entity(), format.to_string())));
            }
            // Without {limit}, the key would clash with policies and with other windows.
            Some(_) => charges.push_override(charge.with_names(ChargeNames::own()), None),
        }
    }
}

/// The entries of a descriptor, as the attributes of a request. The operator sets the domain, and an
/// entry called `domain` cannot replace it.
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

/// The key of an override's counter: the domain and all entries.
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
    /// The key as text, for stores whose key names others read and for operators.
    fn entity(&self) -> String {
        let mut parts = Vec::new();
        self.each_part(|part| parts.push(String::from_utf8_lossy(part).into_owned()));
        crate::key::join_parts(&parts)
    }
}
