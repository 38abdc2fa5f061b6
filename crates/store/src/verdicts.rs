//! The verdicts of one settlement.

use std::ops::{Deref, DerefMut, RangeFull};

use smallvec::SmallVec;
use tidegate_core::Verdict;

/// The verdicts of one settlement, in the order of its charges: a list that needs no allocation for one or two, which
/// most policies have.
///
/// Callers that decide often can keep one and clear it: settling appends. It is a slice for those who read it.
///
/// ```
/// use tidegate::Verdicts;
///
/// let mut verdicts = Verdicts::new();
/// assert!(verdicts.is_empty());
/// verdicts.clear();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts(SmallVec<[Verdict; 2]>);

impl Verdicts {
    /// No verdicts.
    #[inline]
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Appends a verdict.
    #[inline]
    pub fn push(&mut self, verdict: Verdict) {
        self.0.push(verdict);
    }

    /// Appends all of these.
    #[inline]
    pub fn extend_from_slice(&mut self, verdicts: &[Verdict]) {
        self.0.extend_from_slice(verdicts);
    }

    /// Removes all.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes it this long: removes verdicts from its end, or appends copies of `verdict`.
    #[inline]
    pub fn resize(&mut self, length: usize, verdict: Verdict) {
        self.0.resize(length, verdict);
    }

    /// Removes all, and returns them one by one.
    #[inline]
    pub fn drain(&mut self, _: RangeFull) -> impl Iterator<Item = Verdict> {
        self.0.drain(..)
    }
}

impl Deref for Verdicts {
    type Target = [Verdict];

    #[inline]
    fn deref(&self) -> &[Verdict] {
        &self.0
    }
}

impl DerefMut for Verdicts {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Verdict] {
        &mut self.0
    }
}

impl Extend<Verdict> for Verdicts {
    #[inline]
    fn extend<I: IntoIterator<Item = Verdict>>(&mut self, verdicts: I) {
        self.0.extend(verdicts);
    }
}

impl FromIterator<Verdict> for Verdicts {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Self {
        Self(verdicts.into_iter().collect())
    }
}

/// The verdicts one by one.
#[derive(Debug)]
pub struct VerdictIter(smallvec::IntoIter<[Verdict; 2]>);

impl Iterator for VerdictIter {
    type Item = Verdict;

    #[inline]
    fn next(&mut self) -> Option<Verdict> {
        self.0.next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl IntoIterator for Verdicts {
    type Item = Verdict;
    type IntoIter = VerdictIter;

    #[inline]
    fn into_iter(self) -> VerdictIter {
        VerdictIter(self.0.into_iter())
    }
}

impl<'a> IntoIterator for &'a Verdicts {
    type Item = &'a Verdict;
    type IntoIter = std::slice::Iter<'a, Verdict>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
