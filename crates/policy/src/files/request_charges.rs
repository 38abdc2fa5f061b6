//! The charges of one request, and the policies that they belong to.

use smallvec::SmallVec;
use tidegate_core::{Charge, ChargeNames, Cost, Fingerprint};

use crate::files::attributes::ResolvedAttributes;
use crate::files::cost::{CostFault, cost_above_limits};
use crate::files::key_names::KeyNames;
use crate::files::planned_policy::PlannedPolicy;
use crate::policy::limit_name;
use crate::{KeyHasher, Plan, PolicyCharges};

/// The charges of one request, and the policy that each belongs to. Up to four need no allocation.
#[derive(Clone, Debug)]
pub struct RequestCharges<'p> {
    policies: &'p [PlannedPolicy],
    charges: PolicyCharges<'p>,
    owners: SmallVec<[u32; 4]>,
    exceeds_max_charges: bool,
    /// The names of charges by their numbers, if others read the keys in the store.
    names: Vec<(usize, ChargeNames)>,
    /// Whether all charges get names, even without a key format in their policy.
    names_all: bool,
    /// The callers of charges by their numbers, if an operator wants to see them.
    entities: Option<Vec<(usize, String)>>,
    /// The first policy that applies to the request without limiting it.
    unlimited: Option<u32>,
    /// Boxed, since a fault is rare.
    cost_fault: Option<Box<CostFault>>,
    is_counted_later: bool,
}

impl<'p> RequestCharges<'p> {
    pub(crate) fn new(policies: &'p [PlannedPolicy]) -> Self {
        Self {
            policies,
            charges: PolicyCharges::new(),
            owners: SmallVec::new(),
            exceeds_max_charges: false,
            names: Vec::new(),
            names_all: false,
            entities: None,
            unlimited: None,
            cost_fault: None,
            is_counted_later: false,
        }
    }

    pub(crate) fn showing_keys(self, shows_keys: bool) -> Self {
        Self { entities: shows_keys.then(Vec::new), ..self }
    }

    pub(crate) fn naming_keys(self, names_all: bool) -> Self {
        Self { names_all, ..self }
    }

    /// The charges, which a store settles all or nothing.
    pub fn charges(&self) -> &[Charge<'p>] {
        &self.charges
    }

    /// The policy that a charge belongs to; none for a limit that came with the request.
    pub fn policy(&self, charge: usize) -> Option<&'p PlannedPolicy> {
        self.owners.get(charge).and_then(|number| self.policies.get(*number as usize))
    }

    /// The name of the policy that a charge belongs to.
    pub fn policy_name(&self, charge: usize) -> Option<&'p str> {
        match self.owners.get(charge)? {
            &OVERRIDE => Some("override"),
            _ => self.policy(charge).map(PlannedPolicy::name),
        }
    }

    /// The charges with these numbers.
    #[must_use]
    pub fn subset(&self, numbers: impl IntoIterator<Item = usize>) -> Self {
        let Self { exceeds_max_charges, is_counted_later, .. } = *self;
        let mut part = Self { exceeds_max_charges, is_counted_later, ..Self::new(self.policies) };
        for number in numbers {
            let (charge, owner) = (self.charges.get(number), self.owners.get(number));
            let (Some(charge), Some(owner)) = (charge, owner) else { continue };
            let names = self.names.iter().find(|(named, _)| *named == number);
            part.names.extend(names.map(|(_, names)| (part.charges.len(), names.clone())));
            if let Some(entity) = self.entity(number) {
                let entities = part.entities.get_or_insert_default();
                entities.push((part.charges.len(), entity.to_owned()));
            }
            part.push(*owner, *charge);
        }
        part
    }

    /// The same, with this cost for every charge.
    #[must_use]
    pub fn with_cost(mut self, cost: Cost) -> Self {
        self.charges.iter_mut().for_each(|charge| *charge = charge.with_cost(cost));
        self
    }

    /// The same, for requests of which only the outcome tells whether they count: they are charged
    /// first, and refunded if they do not count. A denial can be due to requests that will be refunded,
    /// so it is not a reason to block the caller (`block_for`) until a request has been counted.
    #[must_use]
    pub fn counted_later(self) -> Self {
        Self { is_counted_later: true, ..self }
    }

    /// Whether only the outcome tells if the request counts.
    pub const fn is_counted_later(&self) -> bool {
        self.is_counted_later
    }

    /// The caller, as text, if the plan [shows it](Plan::showing_keys).
    pub fn entity(&self, charge: usize) -> Option<&str> {
        let mut entities = self.entities.as_ref()?.iter();
        entities.find(|(number, _)| *number == charge).map(|(_, entity)| entity.as_str())
    }

    /// Whether there are no charges.
    pub fn is_empty(&self) -> bool {
        self.charges.is_empty()
    }

    /// The policy that lets the request pass at any cost, if no other policy limits it.
    pub fn unlimited_by(&self) -> Option<&'p PlannedPolicy> {
        let number = self.unlimited.filter(|_| self.is_empty())?;
        self.policies.get(number as usize)
    }

    /// Whether more than [`Plan::MAX_CHARGES`] limits apply. Then some charges are missing, and the
    /// request must be denied rather than pass unchecked.
    pub const fn exceeds_max_charges(&self) -> bool {
        self.exceeds_max_charges
    }

    /// An attribute that should give the request's cost, but is not a number. A caller that can
    /// refuse the request with an error should do so. The charges exceed every limit, so that the
    /// request is denied otherwise; with a default cost, nonsense would be the cheapest thing to send.
    pub fn cost_fault(&self) -> Option<&CostFault> {
        self.cost_fault.as_deref()
    }

    /// Adds the charges of a request to one policy that applies to it.
    pub(crate) fn charge(
        &mut self,
        number: u32,
        policy: &'p PlannedPolicy,
        request: &ResolvedAttributes<'_>,
        cost: Cost,
        hasher: &KeyHasher,
    ) {
        let Some(subject) = policy.subject(request, hasher) else { return };
        let rules = policy.rules_for(subject, request);
        if rules.is_empty() {
            self.unlimited.get_or_insert(number);
        }
        let cost = policy.cost_of(request, cost).unwrap_or_else(|fault| {
            // A policy that only observes must not refuse the request.
            if rules.iter().any(|rule| rule.enforced) {
                self.cost_fault.get_or_insert_with(|| Box::new(fault));
            }
            cost_above_limits()
        });
        for rule in rules {
            let charge = Charge::new(subject, cost, rule);
            let names = policy.key_names.of(&rule.limit);
            let is_own = matches!(names, KeyNames::Own);
            if names.template().is_some() || (self.names_all && !is_own) {
                let limit = limit_name(policy.name(), rules, rule);
                let own = ChargeNames::new(policy.entity(request), limit);
                let named = match names.template() {
                    Some(template) => own.in_template(template.to_string()),
                    None => own,
                };
                self.names.push((self.charges.len(), named));
            }
            self.show_next(|| policy.entity(request));
            self.push(number, if is_own { charge.with_names(ChargeNames::own()) } else { charge });
        }
    }

    /// Whether any of its charges has names.
    pub fn is_named(&self) -> bool {
        !self.names.is_empty()
    }

    /// The charges, with names where the policies or the store have a key format.
    pub fn named_charges(&self) -> Vec<Charge<'_>> {
        let mut charges: Vec<Charge<'_>> = self.charges.to_vec();
        for (number, names) in &self.names {
            if let Some(charge) = charges.get_mut(*number) {
                *charge = charge.with_names(names);
            }
        }
        charges
    }

    /// Keeps the caller of the charge that is pushed next, if an operator wants to see it.
    pub(crate) fn show_next(&mut self, entity: impl FnOnce() -> String) {
        let number = self.charges.len();
        if let Some(entities) = self.entities.as_mut().filter(|_| number < Plan::MAX_CHARGES) {
            entities.push((number, entity()));
        }
    }

    pub(crate) fn push(&mut self, policy: u32, charge: Charge<'p>) {
        if self.charges.len() < Plan::MAX_CHARGES {
            self.charges.push(charge.of_policy(policy));
            self.owners.push(policy);
        } else {
            self.exceeds_max_charges = true;
        }
    }

    /// Adds a charge to a limit that came with the request; `names` are the caller's name and the
    /// template of the key, if others read the keys in the store.
    pub(crate) fn push_override(&mut self, charge: Charge<'p>, names: Option<(String, String)>) {
        if let Some((entity, format)) = names {
            let limit = format!("override-{}", charge.rule().limit.quota().window());
            let names = ChargeNames::new(entity, limit).in_template(format);
            self.names.push((self.charges.len(), names));
        }
        self.push(OVERRIDE, charge);
    }

    /// Adds a charge to a limit that is all that the request brings.
    pub(crate) fn push_ad_hoc(&mut self, charge: Charge<'p>) {
        self.push(AD_HOC, charge);
    }

    /// The fingerprint of the caller that a charge belongs to.
    pub fn subject(&self, charge: usize) -> Option<Fingerprint> {
        self.charges.get(charge).map(Charge::subject)
    }
}

/// The owner of a charge to a limit that came with the request, in place of a policy's.
const OVERRIDE: u32 = u32::MAX;
/// The owner of a charge that has nothing to do with any policy.
const AD_HOC: u32 = u32::MAX - 1;
