//! One compiled policy of a plan.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tidegate_core::{Cost, Fingerprint, KeyTemplate, Rule, Span};

use crate::KeyHasher;
use crate::files::attributes::ResolvedAttributes;
use crate::files::cost::{CostFault, CostSource, multiplied_cost};
use crate::files::key_names::KeyNames;
use crate::files::matcher::{ConditionMismatch, MatchCondition};
use crate::files::settings::{OnStoreError, PolicyMode, Precision};
use crate::files::subject::{KeyPart, PolicyKey};
use crate::key::join_parts;
use crate::section::{CompiledSection, Section};

/// A policy with every part checked.
#[derive(Debug)]
pub struct PlannedPolicy {
    pub(crate) name: String,
    pub(crate) mode: PolicyMode,
    /// Every candidate of the index meets this condition; see [`PolicyIndex`](crate::files::matcher::PolicyIndex).
    pub(crate) indexed: Option<MatchCondition>,
    pub(crate) conditions: Vec<MatchCondition>,
    pub(crate) key: Vec<KeyPart>,
    pub(crate) cost: CostSource,
    pub(crate) limits: LimitSet,
    pub(crate) tiers: Vec<PlannedTier>,
    pub(crate) overrides: HashMap<Fingerprint, LimitSet, RandomState>,
    pub(crate) block: Option<BlockPenalty>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) store_deadline: Span,
    pub(crate) precision: Precision,
    pub(crate) key_names: KeyNames,
    /// Whether its cost is known only after the request.
    pub(crate) is_counted_later: bool,
    pub(crate) sections: Vec<CompiledSection>,
}

/// The limits that apply together, or none at all.
#[derive(Debug)]
pub(crate) enum LimitSet {
    Unlimited,
    Rules(Vec<Rule>),
}

/// Other limits for requests that match.
#[derive(Debug)]
pub(crate) struct PlannedTier {
    pub(crate) when: Vec<MatchCondition>,
    pub(crate) limits: LimitSet,
}

/// The penalty after a denial: everything is denied for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPenalty {
    /// How long callers are blocked.
    pub span: Span,
    /// A separate rule: one unit in every `span`. A denial takes the unit; while it is taken, the
    /// caller is blocked, and the verdict has the time until it is back.
    pub rule: Rule,
}

impl LimitSet {
    pub(crate) fn rules(&self) -> &[Rule] {
        match self {
            Self::Unlimited => &[],
            Self::Rules(rules) => rules,
        }
    }

    fn rules_mut(&mut self) -> &mut [Rule] {
        match self {
            Self::Unlimited => &mut [],
            Self::Rules(rules) => rules,
        }
    }
}

impl PlannedPolicy {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is enforced.
    pub const fn mode(&self) -> PolicyMode {
        self.mode
    }

    /// The limits for a request that no tier or override applies to.
    pub fn rules(&self) -> &[Rule] {
        self.limits.rules()
    }

    /// The rules of the limits, the tiers and the penalty, but not of overrides. A rule that several
    /// of them use occurs several times.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        let tiers = self.tiers.iter().flat_map(|tier| tier.limits.rules());
        tiers.chain(self.rules()).chain(self.block.iter().map(|block| &block.rule))
    }

    /// The attributes that distinguish its callers.
    pub fn key(&self) -> impl ExactSizeIterator<Item = &str> {
        self.key.iter().map(|part| &*part.name)
    }

    /// The penalty after a denial.
    pub const fn block(&self) -> Option<&BlockPenalty> {
        self.block.as_ref()
    }

    /// What to do if the store does not answer.
    pub const fn on_store_error(&self) -> OnStoreError {
        self.on_store_error
    }

    /// How long to wait for the store.
    pub const fn store_deadline(&self) -> Span {
        self.store_deadline
    }

    /// How exact a decision must be.
    pub const fn precision(&self) -> Precision {
        self.precision
    }

    /// The template of its keys in a store, where they are shared with another limiter.
    pub const fn key_format(&self) -> Option<&KeyTemplate> {
        self.key_names.template()
    }

    /// How many keys have limits of their own.
    pub fn override_count(&self) -> usize {
        self.overrides.len()
    }

    /// All sets of limits: one of them applies to each caller.
    pub(crate) fn limit_sets(&self) -> impl Iterator<Item = &LimitSet> {
        let tiers = self.tiers.iter().map(|tier| &tier.limits);
        tiers.chain(self.overrides.values()).chain([&self.limits])
    }

    /// Sets the mode, and with it whether the rules are enforced.
    pub(crate) fn set_mode(&mut self, mode: PolicyMode) {
        self.mode = mode;
        let tiers = self.tiers.iter_mut().map(|tier| &mut tier.limits);
        let sets = tiers.chain(self.overrides.values_mut()).chain([&mut self.limits]);
        let blocks = self.block.iter_mut().map(|block| &mut block.rule);
        for rule in sets.flat_map(LimitSet::rules_mut).chain(blocks) {
            rule.enforced = mode != PolicyMode::Shadow;
        }
    }

    /// Whether its cost is known only after the request. One unit is taken in advance.
    pub const fn is_counted_later(&self) -> bool {
        self.is_counted_later
    }

    /// What a section of the program keeps of this policy.
    pub fn section<S: Section>(&self) -> Option<&S::Policy> {
        self.sections.iter().find_map(|section| section.downcast_ref())
    }

    /// Whether a candidate applies.
    pub(crate) fn applies(&self, request: &ResolvedAttributes<'_>) -> bool {
        self.mode != PolicyMode::Off
            && self.conditions.iter().all(|condition| condition.holds(request))
    }

    /// A condition that does not hold.
    pub(crate) fn mismatch(&self, request: &ResolvedAttributes<'_>) -> Option<ConditionMismatch> {
        self.conditions
            .iter()
            .chain(&self.indexed)
            .find_map(|condition| condition.mismatch(request))
    }

    /// The caller; `None` if the request lacks an attribute of the key.
    pub(crate) fn subject(
        &self,
        request: &ResolvedAttributes<'_>,
        hasher: &KeyHasher,
    ) -> Option<Fingerprint> {
        if self.key.iter().any(|part| part.value(request).is_none()) {
            return None;
        }
        Some(hasher.fingerprint(&PolicyKey { key: &self.key, request }))
    }

    /// The caller, as text: the parts of the key, in the form in which they are compared.
    pub(crate) fn entity(&self, request: &ResolvedAttributes<'_>) -> String {
        let text = |part: &KeyPart| part.form.text(part.value(request).unwrap_or_default());
        join_parts(&self.key.iter().map(text).collect::<Vec<_>>())
    }

    /// The caller, for people: the attributes of the key, each in the form in which it is compared.
    pub(crate) fn readable_key(&self, request: &ResolvedAttributes<'_>) -> Vec<(&str, String)> {
        let value = |part: &KeyPart| part.form.shown(part.value(request).unwrap_or_default());
        self.key.iter().map(|part| (&*part.name, value(part))).collect()
    }

    /// The first attribute of the key that the request lacks.
    pub(crate) fn missing_part(&self, request: &ResolvedAttributes<'_>) -> Option<&str> {
        self.key.iter().find(|part| part.value(request).is_none()).map(|part| &*part.name)
    }

    pub(crate) fn rules_for(
        &self,
        subject: Fingerprint,
        request: &ResolvedAttributes<'_>,
    ) -> &[Rule] {
        self.limits_for(subject, request).rules()
    }

    fn limits_for(&self, subject: Fingerprint, request: &ResolvedAttributes<'_>) -> &LimitSet {
        if !self.overrides.is_empty()
            && let Some(limits) = self.overrides.get(&subject)
        {
            return limits;
        }
        let holds =
            |tier: &&PlannedTier| tier.when.iter().all(|condition| condition.holds(request));
        self.tiers.iter().find(holds).map_or(&self.limits, |tier| &tier.limits)
    }

    /// Where the limits of a request come from: an override, a tier (by number), or the policy.
    pub(crate) fn origin(
        &self,
        subject: Fingerprint,
        request: &ResolvedAttributes<'_>,
    ) -> LimitOrigin {
        if self.overrides.contains_key(&subject) {
            return LimitOrigin::Override;
        }
        let holds = |tier: &PlannedTier| tier.when.iter().all(|condition| condition.holds(request));
        self.tiers.iter().position(holds).map_or(LimitOrigin::Policy, LimitOrigin::Tier)
    }

    /// The cost under this policy. A cost of zero stays a peek.
    pub(crate) fn cost_of(
        &self,
        request: &ResolvedAttributes<'_>,
        cost: Cost,
    ) -> Result<Cost, CostFault> {
        Ok(multiplied_cost(cost, self.cost.unit_cost(request)?))
    }
}

/// Where limits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitOrigin {
    Override,
    Tier(usize),
    Policy,
}
