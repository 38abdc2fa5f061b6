//! Everything that must hold for one attribute.

use super::Pattern;
use crate::attributes::Resolved;

/// One of some patterns, and none of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) attribute: usize,
    pub(crate) any_of: Vec<Pattern>,
    pub(crate) none_of: Vec<Pattern>,
}

/// Why a condition does not apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It has no such attribute.
    Missing(usize),
    /// It has another value.
    Differs(usize),
}

impl Condition {
    /// Whether it holds. A missing attribute satisfies "none of", and never "one of".
    pub(crate) fn holds(&self, request: &Resolved<'_>) -> bool {
        match request.value(self.attribute) {
            None => self.any_of.is_empty(),
            Some(value) => {
                let address = request.address(self.attribute);
                let matches = |pattern: &Pattern| pattern.matches(value, address);
                (self.any_of.is_empty() || self.any_of.iter().any(matches))
                    && !self.none_of.iter().any(matches)
            }
        }
    }

    pub(crate) fn mismatch(&self, request: &Resolved<'_>) -> Option<Mismatch> {
        match (self.holds(request), request.value(self.attribute)) {
            (true, _) => None,
            (false, None) => Some(Mismatch::Missing(self.attribute)),
            (false, Some(_)) => Some(Mismatch::Differs(self.attribute)),
        }
    }

    /// The values for which it holds, if they can be listed.
    pub(crate) fn values(&self) -> Option<Vec<&[u8]>> {
        let mut values = Vec::with_capacity(self.any_of.len());
        for pattern in &self.any_of {
            let Pattern::Exact(value) = pattern else { return None };
            values.push(&**value);
        }
        (!values.is_empty() && self.none_of.is_empty()).then_some(values)
    }
}
