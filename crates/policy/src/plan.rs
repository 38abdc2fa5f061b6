//! The compiled plan: a request becomes its charges, without errors, parsing or allocation.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Fingerprint};

use crate::attributes::{Known, Resolved};
use crate::foreign::envoy::Domain;
use crate::gateway::Gateway;
use crate::matcher::Index;
use crate::planned::PlannedPolicy;
use crate::problem::Problems;
use crate::settings::Settings;
use crate::{Attributes, Charges, KeyHasher, Source};

/// Policies that were checked once, so that asking them cannot fail.
///
/// ```
/// use tidegate_core::Cost;
/// use tidegate_policy::{Plan, Source};
///
/// let text = "
/// policies:
///   - name: login
///     match: { path: /login, method: POST }
///     key: [ip]
///     limits: [5/minute, 20/hour]
///   - name: per-user
///     key: [user]
///     limits: [100/minute]
/// ";
/// let plan = Plan::compile(&Source::new("limits.yaml", text)?)?;
///
/// let login = [("path", "/login"), ("method", "POST"), ("ip", "203.0.113.9")];
/// let owed = plan.charges(&login, Cost::ONE);
/// assert_eq!(owed.charges().len(), 2);
/// assert_eq!(owed.policy(0).map(|policy| policy.name()), Some("login"));
/// # Ok::<(), tidegate_policy::Problems>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    pub(crate) policies: Vec<PlannedPolicy>,
    pub(crate) by_name: ByName,
    pub(crate) index: Index,
    pub(crate) known: Known,
    pub(crate) settings: Settings,
    pub(crate) hasher: KeyHasher,
    pub(crate) domains: Vec<Domain>,
    pub(crate) shows_keys: bool,
    pub(crate) gateway: Option<Gateway>,
}

/// Numbers of policies.
pub(crate) type ByName = HashMap<Box<str>, u32, RandomState>;

/// A name that is there twice is the first one's.
pub(crate) fn by_name(policies: &[PlannedPolicy]) -> ByName {
    let mut names = ByName::default();
    for (number, policy) in (0..).zip(policies) {
        names.entry(policy.name().into()).or_insert(number);
    }
    names
}

impl Plan {
    /// The most limits that one request is charged to.
    pub const MAX_CHARGES: usize = 32;
    /// The most policies in a file.
    pub const MAX_POLICIES: usize = 50_000;
    /// The most different attributes that policies may ask for.
    pub const MAX_ATTRIBUTES: usize = 64;

    /// Checks a configuration, ours or another limiter's, and says everything that is wrong with
    /// it.
    pub fn compile(source: &Source) -> Result<Self, Problems> {
        Self::compile_with(KeyHasher::of_this_process(), source)
    }

    /// Under another secret than this process's: counters in a shared store need one that all who
    /// share it know.
    pub fn compile_with(hasher: KeyHasher, source: &Source) -> Result<Self, Problems> {
        Ok(Self::compile_amended(hasher, source, &[])?.plan)
    }

    /// Keeps the readable key of each charge, for an operator who wants to see who it is. That
    /// takes an allocation a charge; without it nobody needs the text once it is hashed.
    #[must_use]
    pub fn showing_keys(self, shows_keys: bool) -> Self {
        Self { shows_keys, ..self }
    }

    /// What a request owes to all policies that are about it. A policy is skipped when the
    /// request lacks an attribute of its key.
    pub fn charges<A: Attributes + ?Sized>(&self, request: &A, cost: Cost) -> Owed<'_> {
        let mut owed = Owed::new(&self.policies).showing_keys(self.shows_keys);
        self.charge(request, cost, &mut owed);
        owed
    }

    /// Adds what a request owes.
    pub(crate) fn charge<'p, A: Attributes + ?Sized>(
        &'p self,
        request: &A,
        cost: Cost,
        owed: &mut Owed<'p>,
    ) {
        let request = self.known.resolve(request);
        for number in self.index.candidates(&request) {
            let Some(policy) = self.policies.get(number as usize) else { continue };
            if policy.applies(&request) {
                owed.charge(number, policy, &request, cost, &self.hasher);
            }
        }
    }

    /// What one policy, by name, is owed by a request: whether or not it matches.
    pub fn charges_of<A: Attributes + ?Sized>(
        &self,
        name: &str,
        request: &A,
        cost: Cost,
    ) -> Option<Owed<'_>> {
        let number = *self.by_name.get(name)?;
        let policy = self.policies.get(number as usize)?;
        let request = self.known.resolve(request);
        let mut owed = Owed::new(&self.policies).showing_keys(self.shows_keys);
        if policy.mode() != crate::Mode::Off {
            owed.charge(number, policy, &request, cost, &self.hasher);
        }
        Some(owed)
    }

    /// All policies, in the order of the file.
    pub fn policies(&self) -> &[PlannedPolicy] {
        &self.policies
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&PlannedPolicy> {
        self.by_name.get(name).and_then(|number| self.policies.get(*number as usize))
    }

    /// What the file says about the rest: the store, and keys in it.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The domains of an Envoy configuration.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The gateway that the file describes.
    pub const fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref()
    }

    /// The attributes that any policy asks for.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.known.names()
    }
}

/// What one request owes: charges, and the policy that each belongs to. No allocation for up to
/// four.
#[derive(Clone, Debug)]
pub struct Owed<'p> {
    policies: &'p [PlannedPolicy],
    charges: Charges<'p>,
    owners: SmallVec<[u32; 4]>,
    is_crowded: bool,
    /// For each charge, where the store shows names to others.
    names: Vec<Names>,
    /// For each charge, where an operator wants to see who it is.
    entities: Option<Vec<String>>,
}

/// What a charge is called where others read it.
#[derive(Clone, Debug)]
struct Names {
    entity: String,
    limit: String,
}

impl<'p> Owed<'p> {
    pub(crate) fn new(policies: &'p [PlannedPolicy]) -> Self {
        Self {
            policies,
            charges: Charges::new(),
            owners: SmallVec::new(),
            is_crowded: false,
            names: Vec::new(),
            entities: None,
        }
    }

    fn showing_keys(self, shows_keys: bool) -> Self {
        Self { entities: shows_keys.then(Vec::new), ..self }
    }

    /// What a store settles, all or nothing.
    pub fn charges(&self) -> &[Charge<'p>] {
        &self.charges
    }

    /// The policy that a charge belongs to; none, for a limit that came with the request.
    pub fn policy(&self, charge: usize) -> Option<&'p PlannedPolicy> {
        self.owners.get(charge).and_then(|number| self.policies.get(*number as usize))
    }

    /// The name of whose limit a charge is to.
    pub fn policy_name(&self, charge: usize) -> Option<&'p str> {
        match self.owners.get(charge)? {
            &OVERRIDE => Some("override"),
            _ => self.policy(charge).map(PlannedPolicy::name),
        }
    }

    /// Some of it: the charges with these numbers.
    #[must_use]
    pub fn part(&self, numbers: impl IntoIterator<Item = usize>) -> Self {
        let mut part = Self { is_crowded: self.is_crowded, ..Self::new(self.policies) };
        for number in numbers {
            let (charge, owner) = (self.charges.get(number), self.owners.get(number));
            let (Some(charge), Some(owner)) = (charge, owner) else { continue };
            part.push(*owner, *charge);
            part.names.extend(self.names.get(number).cloned());
        }
        part
    }

    /// The same where every charge costs so much.
    #[must_use]
    pub fn costing(mut self, cost: Cost) -> Self {
        self.charges.iter_mut().for_each(|charge| *charge = charge.with_cost(cost));
        self
    }

    /// Who asks, as text, where the plan [shows it](Plan::showing_keys).
    pub fn entity(&self, charge: usize) -> Option<&str> {
        self.entities.as_ref()?.get(charge).map(String::as_str)
    }

    /// Whether nothing applies.
    pub fn is_empty(&self) -> bool {
        self.charges.is_empty()
    }

    /// Whether more than [`Plan::MAX_CHARGES`] limits apply. Some are missing here then, and
    /// rather than forget them the request is to be denied.
    pub const fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    fn charge(
        &mut self,
        number: u32,
        policy: &'p PlannedPolicy,
        request: &Resolved<'_>,
        cost: Cost,
        hasher: &KeyHasher,
    ) {
        let Some(subject) = policy.subject(request, hasher) else { return };
        let cost = policy.cost_of(request, cost);
        let rules = policy.rules_for(subject, request);
        for rule in rules {
            self.push(number, Charge::new(subject, cost, rule));
            if let Some(entities) = &mut self.entities {
                entities.push(policy.entity(request));
            }
            if policy.key_format().is_some() {
                let limit = match rules {
                    [_] => policy.name().to_owned(),
                    _ => format!("{}-{}", policy.name(), rule.limit.quota().window()),
                };
                self.names.push(Names { entity: policy.entity(request), limit });
            }
        }
    }

    /// The charges, with names where the policies have a key format.
    pub fn named_charges(&self) -> Charges<'_> {
        let mut charges: Charges<'_> = self.charges.iter().copied().collect();
        // Either all policies have one, or none of those that a store shows.
        if self.names.len() == charges.len() {
            for (charge, names) in charges.iter_mut().zip(&self.names) {
                *charge = charge.named(&names.entity).of_limit(&names.limit);
            }
        }
        charges
    }

    pub(crate) fn push(&mut self, policy: u32, charge: Charge<'p>) {
        if self.charges.len() < Plan::MAX_CHARGES {
            self.charges.push(charge);
            self.owners.push(policy);
        } else {
            self.is_crowded = true;
        }
    }

    /// Adds a charge to a limit that came with the request, with a name where the store shows one.
    pub(crate) fn push_override(&mut self, charge: Charge<'p>, entity: Option<String>) {
        self.push(OVERRIDE, charge);
        if let Some(entity) = entity {
            let limit = format!("override-{}", charge.rule().limit.quota().window());
            self.names.push(Names { entity, limit });
        }
    }

    /// What is owed to one policy, at another cost: for whoever learns afterwards what it was.
    #[must_use]
    pub fn to_policy(&self, name: &str, cost: Cost) -> Self {
        let is_its = |index: &usize| self.policy_name(*index) == Some(name);
        self.part((0..self.charges.len()).filter(is_its)).costing(cost)
    }

    /// Who asks, as the charges of a policy see it.
    pub fn subject(&self, charge: usize) -> Option<Fingerprint> {
        self.charges.get(charge).map(Charge::subject)
    }
}

/// The owner of a charge that is no policy's.
const OVERRIDE: u32 = u32::MAX;
