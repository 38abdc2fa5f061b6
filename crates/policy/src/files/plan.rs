//! The compiled plan: turns a request into its charges, without errors, parsing or allocation.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tidegate_core::Cost;

use crate::files::attributes::PlanAttributes;
use crate::files::foreign::envoy::EnvoyDomain;
use crate::files::matcher::PolicyIndex;
use crate::files::planned_policy::PlannedPolicy;
use crate::files::problem::FileProblems;
use crate::files::settings::PlanSettings;
use crate::section::{CompiledSection, Section};
use crate::{Attributes, KeyHasher, PolicySource, RequestCharges};

/// A set of policies, checked once, so that charging requests to them cannot fail.
///
/// ```
/// use tidegate::config::PolicySource;
/// use tidegate::{Cost, Plan};
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
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
///
/// let login = [("path", "/login"), ("method", "POST"), ("ip", "203.0.113.9")];
/// let charges = plan.charges(&login, Cost::ONE);
/// assert_eq!(charges.charges().len(), 2);
/// assert_eq!(charges.policy(0).map(|policy| policy.name()), Some("login"));
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    pub(crate) policies: Vec<PlannedPolicy>,
    pub(crate) by_name: PolicyNumbers,
    pub(crate) index: PolicyIndex,
    pub(crate) attributes: PlanAttributes,
    pub(crate) settings: PlanSettings,
    pub(crate) hasher: KeyHasher,
    pub(crate) domains: Vec<EnvoyDomain>,
    pub(crate) shows_keys: bool,
    pub(crate) names_keys: bool,
    pub(crate) sections: Vec<CompiledSection>,
}

/// The numbers of policies by name.
pub(crate) type PolicyNumbers = HashMap<Box<str>, u32, RandomState>;

/// If a name occurs twice, it refers to the first policy.
pub(crate) fn by_name(policies: &[PlannedPolicy]) -> PolicyNumbers {
    let mut names = PolicyNumbers::default();
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
    /// The most different attributes that policies may use.
    pub const MAX_ATTRIBUTES: usize = 64;

    /// Checks a configuration, ours or another limiter's, and reports everything that is wrong with
    /// it. It may have the [sections](PolicySource::with_sections) that its source names.
    pub fn compile(source: &PolicySource) -> Result<Self, FileProblems> {
        Self::compile_with(KeyHasher::of_this_process(), source)
    }

    /// Compiles under a secret other than this process's: processes that share a store need the same
    /// secret.
    pub fn compile_with(hasher: KeyHasher, source: &PolicySource) -> Result<Self, FileProblems> {
        Ok(Self::compile_amended(hasher, source, &[])?.plan)
    }

    /// Keeps the readable key of each charge, so that an operator can see the callers. That takes an
    /// allocation per charge; otherwise a key is only hashed.
    #[must_use]
    pub fn showing_keys(self, shows_keys: bool) -> Self {
        Self { shows_keys, ..self }
    }

    /// Gives every charge the names of its caller and its limit, for a store that names all keys by
    /// them, even without a key format in the policies. That takes allocations too.
    #[must_use]
    pub fn naming_keys(self, names_keys: bool) -> Self {
        Self { names_keys, ..self }
    }

    /// The charges of a request to all policies that apply to it. A policy is skipped if the request
    /// lacks an attribute of its key.
    pub fn charges<A: Attributes + ?Sized>(&self, request: &A, cost: Cost) -> RequestCharges<'_> {
        let mut charges = self.no_charges();
        self.charge(request, cost, &mut charges);
        charges
    }

    pub(crate) fn no_charges(&self) -> RequestCharges<'_> {
        let charges = RequestCharges::new(&self.policies).showing_keys(self.shows_keys);
        charges.naming_keys(self.names_keys)
    }

    /// Adds the charges of a request.
    pub(crate) fn charge<'p, A: Attributes + ?Sized>(
        &'p self,
        request: &A,
        cost: Cost,
        charges: &mut RequestCharges<'p>,
    ) {
        let request = self.attributes.resolve(request);
        for number in self.index.candidates(&request) {
            let Some(policy) = self.policies.get(number as usize) else { continue };
            if policy.applies(&request) {
                charges.charge(number, policy, &request, cost, &self.hasher);
            }
        }
    }

    /// The charges of a request to one policy, by name, whether or not the policy matches.
    pub fn charges_of<A: Attributes + ?Sized>(
        &self,
        name: &str,
        request: &A,
        cost: Cost,
    ) -> Option<RequestCharges<'_>> {
        let number = *self.by_name.get(name)?;
        let policy = self.policies.get(number as usize)?;
        let request = self.attributes.resolve(request);
        let mut charges = self.no_charges();
        if policy.mode() != crate::PolicyMode::Off {
            charges.charge(number, policy, &request, cost, &self.hasher);
        }
        Some(charges)
    }

    /// All policies, in the order of the file.
    pub fn policies(&self) -> &[PlannedPolicy] {
        &self.policies
    }

    /// The policy with this name.
    pub fn policy(&self, name: &str) -> Option<&PlannedPolicy> {
        self.by_name.get(name).and_then(|number| self.policies.get(*number as usize))
    }

    /// The settings of the file besides its policies, such as the store.
    pub const fn settings(&self) -> &PlanSettings {
        &self.settings
    }

    /// The domains of an Envoy configuration.
    pub fn domains(&self) -> &[EnvoyDomain] {
        &self.domains
    }

    /// What the file says in a section of the program.
    pub fn section<S: Section>(&self) -> Option<&S::Plan> {
        self.sections.iter().find_map(|section| section.downcast_ref())
    }

    /// The attributes that policies use.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.attributes.names()
    }
}
