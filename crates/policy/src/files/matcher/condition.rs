//! The condition on one attribute of a request.

use super::ValuePattern;
use crate::files::attributes::ResolvedAttributes;

/// A condition on an attribute: one of `any_of` matches, and none of `none_of`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatchCondition {
    pub(crate) attribute: usize,
    pub(crate) any_of: Vec<ValuePattern>,
    pub(crate) none_of: Vec<ValuePattern>,
}

/// Why a condition does not hold for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionMismatch {
    /// The request lacks the attribute.
    Missing(usize),
    /// The value does not match.
    Differs(usize),
}

impl MatchCondition {
    /// Whether the condition holds. A missing attribute satisfies `none_of`, and never `any_of`.
    pub(crate) fn holds(&self, request: &ResolvedAttributes<'_>) -> bool {
        match request.value(self.attribute) {
            None => self.any_of.is_empty(),
            Some(value) => {
                let address = request.address(self.attribute);
                let matches = |pattern: &ValuePattern| pattern.matches(value, address);
                (self.any_of.is_empty() || self.any_of.iter().any(matches))
                    && !self.none_of.iter().any(matches)
            }
        }
    }

    pub(crate) fn mismatch(&self, request: &ResolvedAttributes<'_>) -> Option<ConditionMismatch> {
        match (self.holds(request), request.value(self.attribute)) {
            (true, _) => None,
            (false, None) => Some(ConditionMismatch::Missing(self.attribute)),
            (false, Some(_)) => Some(ConditionMismatch::Differs(self.attribute)),
        }
    }

    /// The values for which the condition holds, if they can be listed.
    pub(crate) fn values(&self) -> Option<Vec<&[u8]>> {
        let mut values = Vec::with_capacity(self.any_of.len());
        for pattern in &self.any_of {
            let ValuePattern::Exact(value) = pattern else { return None };
            values.push(&**value);
        }
        (!values.is_empty() && self.none_of.is_empty()).then_some(values)
    }
}
