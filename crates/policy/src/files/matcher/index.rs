//! Finds the policies that may match a request without evaluating each one.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use smallvec::SmallVec;

use super::MatchCondition;
use crate::PlannedPolicy;
use crate::files::attributes::ResolvedAttributes;

/// Policies by a value that their requests must have; policies without such a value are always
/// candidates.
///
/// A policy is filed under the attribute that distinguishes most policies: among a thousand
/// tenants' policies, a request finds its tenant's with one lookup.
#[derive(Debug, Default)]
pub(crate) struct PolicyIndex {
    always: Vec<u32>,
    by_value: Vec<(usize, ValueIndex)>,
}

type ValueIndex = HashMap<Box<[u8]>, Vec<u32>, RandomState>;

/// Policies that may match, in the order of the file. Up to sixteen need no allocation.
pub(crate) type PolicyCandidates = SmallVec<[u32; 16]>;

impl PolicyIndex {
    /// Builds the index. The condition that a policy is filed under moves to its `indexed` field.
    pub(crate) fn new(policies: &mut [PlannedPolicy]) -> Self {
        let weight = distinct_values(policies.iter().map(|policy| &policy.conditions[..]));
        let mut index = Self::default();
        for (number, policy) in (0..).zip(policies) {
            let best = (policy.conditions.iter().enumerate())
                .filter(|(_, condition)| condition.values().is_some())
                .max_by_key(|(_, condition)| weight.get(&condition.attribute).copied());
            let Some((at, _)) = best else {
                index.always.push(number);
                continue;
            };
            // Every candidate meets this condition, so it is not evaluated again: that would touch
            // cold memory.
            let condition = policy.conditions.remove(at);
            if let Some(values) = condition.values() {
                index.file(number, condition.attribute, values);
            }
            policy.indexed = Some(condition);
        }
        index
    }

    fn file(&mut self, policy: u32, attribute: usize, values: Vec<&[u8]>) {
        let at = self.by_value.iter().position(|(other, _)| *other == attribute);
        let at = at.unwrap_or_else(|| {
            self.by_value.push((attribute, ValueIndex::default()));
            self.by_value.len() - 1
        });
        let Some((_, filed)) = self.by_value.get_mut(at) else { return };
        for value in values {
            let policies = filed.entry(value.into()).or_default();
            if policies.last() != Some(&policy) {
                policies.push(policy);
            }
        }
    }

    /// All policies that match, and few that do not.
    pub(crate) fn candidates(&self, request: &ResolvedAttributes<'_>) -> PolicyCandidates {
        let mut found = PolicyCandidates::from_slice(&self.always);
        for (attribute, values) in &self.by_value {
            if let Some(policies) = request.value(*attribute).and_then(|value| values.get(value)) {
                found.extend_from_slice(policies);
            }
        }
        if self.by_value.len() > usize::from(self.always.is_empty()) {
            found.sort_unstable();
        }
        found
    }
}

fn distinct_values<'c>(
    policies: impl Iterator<Item = &'c [MatchCondition]>,
) -> HashMap<usize, usize> {
    let mut values: HashMap<usize, std::collections::HashSet<&[u8]>> = HashMap::new();
    for condition in policies.flatten() {
        values
            .entry(condition.attribute)
            .or_default()
            .extend(condition.values().unwrap_or_default());
    }
    values.into_iter().map(|(attribute, values)| (attribute, values.len())).collect()
}
